#include "explain/shares.h"

namespace forebay::explain {

namespace {

void add(CallSum& sum, const CallSum& more) {
  sum.count += more.count;
  sum.bytes += more.bytes;
  sum.ns += more.ns;
}

// What of `all` belongs to the first `part` of `whole`; all of it when that is everything.
uint64_t up_to(uint64_t all, uint64_t part, uint64_t whole) {
  if (part >= whole) return all;
  return static_cast<uint64_t>(static_cast<double>(all) * static_cast<double>(part) /
                               static_cast<double>(whole));
}

}  // namespace

void Shares::keep(uint64_t what, size_t group, const CallSum& call) {
  Kept& kept = kept_[what];
  const auto [found, is_new] = kept.position.emplace(group, kept.groups.size());
  if (is_new) kept.groups.emplace_back(group, CallSum{});
  add(kept.groups[found->second].second, call);
  add(kept.all, call);
}

void Shares::share_out(uint64_t what, const CallSum& counted,
                       const std::function<void(size_t, const CallSum&)>& give) const {
  const auto found = kept_.find(what);
  if (found == kept_.end()) return;
  const Kept& kept = found->second;
  // Each gets the difference of two rounded sums, so that nothing is left over.
  CallSum so_far, given;
  for (const auto& [group, one] : kept.groups) {
    add(so_far, one);
    const uint64_t count = up_to(counted.count, so_far.count, kept.all.count);
    const uint64_t bytes = kept.all.bytes > 0 ? up_to(counted.bytes, so_far.bytes, kept.all.bytes)
                                              : up_to(counted.bytes, so_far.count, kept.all.count);
    const auto ns = static_cast<int64_t>(
        up_to(static_cast<uint64_t>(counted.ns), so_far.count, kept.all.count));
    const CallSum part{count - given.count, bytes - given.bytes, ns - given.ns};
    given = {count, bytes, ns};
    if (part.count > 0 || part.bytes > 0 || part.ns > 0) give(group, part);
  }
}

}  // namespace forebay::explain
