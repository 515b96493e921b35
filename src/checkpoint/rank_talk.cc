#include "checkpoint/rank_talk.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace forebay::checkpoint {
namespace {

// The first letter of what is gathered: a value, or an error whose code follows as a letter.
constexpr char kValue = '+', kError = '-';
constexpr char kFirstCode = 'a';

class SingleRank final : public RankGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<std::vector<std::string>> gather(std::string_view mine,
                                          std::stop_token /*stop*/) override {
    return std::vector<std::string>{std::string(mine)};
  }
};

}  // namespace

Result<std::vector<std::string>> agree(RankGroup& group, const Result<std::string>& mine,
                                       const std::stop_token& stop) {
  std::string said;
  if (mine.ok()) {
    said = kValue + *mine;
  } else {
    said = {kError, static_cast<char>(kFirstCode + static_cast<int>(mine.error().code))};
    said += mine.error().message;
  }
  std::vector<std::string> all = FB_TRY(group.gather(said, stop));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::string& text = all[rank];
    if (text.size() >= 2 && text[0] == kError) {
      const auto code = static_cast<ErrorCode>(text[1] - kFirstCode);
      if (all.size() == 1) return mine.error();
      return fail(code, "rank {}: {}", rank, text.substr(2));
    }
    text.erase(0, 1);
  }
  return all;
}

std::shared_ptr<RankGroup> make_single_rank() {
  return std::make_shared<SingleRank>();
}

}  // namespace forebay::checkpoint
