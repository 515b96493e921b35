#include "loader/fetch.h"

namespace forebay::loader {

void fill_undecoded(const Fetch& fetch, const Target& target) {
  SlotState& state = target.batch->slots[target.slot];
  state.sample.sample = state.wanted;
  state.sample.file = fetch.file;
  state.sample.payload_bytes =
      fetch.access == formats::Access::kExtents ? target.extent.length : fetch.payload_bytes;
  if (fetch.buffer) {
    const uint64_t offset = target.extent.offset - fetch.extent.offset;
    state.sample.data.bytes = fetch.buffer->span().subspan(offset, target.extent.length);
    state.sample.data.shape = {target.extent.length};
    state.sample.owner = fetch.buffer;
  }
  state.is_good = true;
}

}  // namespace forebay::loader
