#include "checkpoint/pieces.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace forebay::checkpoint {
namespace {

constexpr size_t kSplitDimensionsMax = 4;
constexpr size_t kCornersMax = size_t{1} << 22;

// Dimensions along which some piece is not all of the tensor.
std::vector<size_t> split_dimensions(const SavedTensor& tensor) {
  std::vector<size_t> split;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const auto is_part = [&](const Piece& piece) { return piece.shape[d] != tensor.shape[d]; };
    if (std::any_of(tensor.pieces.begin(), tensor.pieces.end(), is_part)) split.push_back(d);
  }
  return split;
}

Status check_bounds(const SavedTensor& tensor) {
  for (const Piece& piece : tensor.pieces) {
    if (piece.start.size() != tensor.shape.size() || piece.shape.size() != tensor.shape.size())
      return fail(ErrorCode::kCorruption, "tensor '{}': a piece of {} dimensions of {}",
                  tensor.name, piece.shape.size(), tensor.shape.size());
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (piece.start[d] > tensor.shape[d] || piece.shape[d] > tensor.shape[d] - piece.start[d])
        return fail(ErrorCode::kCorruption, "tensor '{}': a piece ends at {} of {} along {}",
                    tensor.name, piece.start[d] + piece.shape[d], tensor.shape[d], d);
    }
  }
  return {};
}

bool is_empty(std::span<const uint64_t> shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

// How often each place of the tensor is held is the sum of the pieces' indicator functions. Such a
// sum is known by its mixed differences, which for one box are +1 and -1 at its corners: where
// those of all pieces add up to those of the whole, each place is held once.
struct Corner {
  std::array<uint64_t, kSplitDimensionsMax> at{};
  int64_t sign = 0;
};

void add_corners(std::vector<Corner>& corners, std::span<const size_t> dimensions,
                 std::span<const uint64_t> start, std::span<const uint64_t> shape, int64_t sign) {
  for (size_t bits = 0; bits < size_t{1} << dimensions.size(); ++bits) {
    Corner corner{.sign = sign};
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const size_t d = dimensions[i];
      const bool is_end = (bits >> i & 1) != 0;
      corner.at[i] = start[d] + (is_end ? shape[d] : 0);
      if (is_end) corner.sign = -corner.sign;
    }
    corners.push_back(corner);
  }
}

bool cancel_out(std::vector<Corner>& corners) {
  std::sort(corners.begin(), corners.end(),
            [](const Corner& a, const Corner& b) { return a.at < b.at; });
  for (size_t i = 0; i < corners.size();) {
    int64_t sum = 0;
    const auto& at = corners[i].at;
    for (; i < corners.size() && corners[i].at == at; ++i) sum += corners[i].sign;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace

Status check_pieces(const SavedTensor& tensor) {
  FB_TRY(check_bounds(tensor));
  if (is_empty(tensor.shape)) return {};
  const std::vector<size_t> dimensions = split_dimensions(tensor);
  if (dimensions.size() > kSplitDimensionsMax ||
      (tensor.pieces.size() << dimensions.size()) > kCornersMax)
    return fail(ErrorCode::kUnsupported, "tensor '{}': {} pieces along {} dimensions are too many",
                tensor.name, tensor.pieces.size(), dimensions.size());
  std::vector<Corner> corners;
  const std::vector<uint64_t> origin(tensor.shape.size());
  add_corners(corners, dimensions, origin, tensor.shape, -1);
  for (const Piece& piece : tensor.pieces) {
    if (!is_empty(piece.shape)) add_corners(corners, dimensions, piece.start, piece.shape, 1);
  }
  if (cancel_out(corners)) return {};
  return fail(ErrorCode::kCorruption, "tensor '{}': its {} pieces overlap or leave a hole",
              tensor.name, tensor.pieces.size());
}

}  // namespace forebay::checkpoint
