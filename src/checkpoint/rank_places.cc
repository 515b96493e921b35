#include "checkpoint/rank_places.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "checkpoint/rank_talk.h"
#include "checkpoint/state_text.h"

namespace forebay::checkpoint {
namespace {

std::string mark_of(const Tier& tier, const SaveName& probe, int rank) {
  return fmt::format("{}/rank-{:05}.here", tier.working_folder(probe), rank);
}

// `writing` keeps prunes off the folder.
Status leave_mark(Tier& tier, const SaveName& probe, int rank,
                  std::shared_ptr<const void>& writing) {
  writing = FB_TRY(tier.begin(probe));
  const std::byte mark{'1'};
  return storage::write_file(tier.store(), mark_of(tier, probe, rank), {&mark, 1});
}

int first_seen(const Tier& tier, const SaveName& probe, int rank) {
  int first = 0;
  while (first < rank && !tier.store().stat(mark_of(tier, probe, first)).ok()) ++first;
  return first;
}

}  // namespace

std::optional<int> RankPlaces::first_apart() const {
  for (size_t rank = 0; rank < leaders.size(); ++rank) {
    if (leaders[rank] != 0) return static_cast<int>(rank);
  }
  return std::nullopt;
}

std::vector<bool> RankPlaces::together_with(int rank) const {
  std::vector<bool> out;
  for (const int leader : leaders) out.push_back(leader == leaders[static_cast<size_t>(rank)]);
  return out;
}

Result<RankPlaces> find_places(Tier& tier, RankGroup& group, const SaveName& probe,
                               const std::stop_token& stop) {
  const auto size = static_cast<size_t>(group.size());
  RankPlaces out{std::vector<int>(size)};
  if (size == 1) return out;
  const storage::Capabilities store = tier.store().capabilities();
  const bool may_differ = store.can_rename && store.keeps_files;
  std::shared_ptr<const void> writing;
  const Status left = may_differ ? leave_mark(tier, probe, group.rank(), writing) : Status();
  const Result<std::string> said = left.ok() ? Result<std::string>(std::string()) : left.error();
  const auto marked = agree(group, said, stop);
  const int mine = may_differ && marked.ok() ? first_seen(tier, probe, group.rank()) : 0;
  writing.reset();  // before the first one removes the folder
  const auto all = agree(group, std::to_string(mine), stop);
  if (may_differ && (mine == group.rank() || !marked.ok()))
    tier.discard(probe).ignore("prune finds what is left");
  if (!marked.ok()) return marked.error();
  if (!all.ok()) return all.error();
  for (size_t rank = 0; rank < size; ++rank)
    out.leaders[rank] = static_cast<int>(number_of((*all)[rank]));
  return out;
}

}  // namespace forebay::checkpoint
