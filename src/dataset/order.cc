#include "dataset/order.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"

namespace forebay::dataset {
namespace {

// Names of the independent key streams of one epoch.
constexpr uint64_t kShardStream = 1;
constexpr uint64_t kWindowStream = 2;  // + index of the window

double log2_factorial(double n) {
  int sign = 0;  // lgamma() would write a global
  return ::lgamma_r(n + 1, &sign) / std::log(2.0);
}

bool is_windowed(OrderKind kind) {
  return kind == OrderKind::kWindowed || kind == OrderKind::kResident;
}

double log2_sum(double a, double b) {
  const double high = std::max(a, b);
  return high + std::log2(std::exp2(a - high) + std::exp2(b - high));
}

}  // namespace

std::string_view order_kind_name(OrderKind kind) {
  switch (kind) {
    case OrderKind::kSequential:
      return "sequential";
    case OrderKind::kFull:
      return "full";
    case OrderKind::kWindowed:
      return "windowed";
    case OrderKind::kResident:
      return "resident";
  }
  return "unknown";
}

Result<Order> Order::make(OrderOptions options) {
  if (options.sample_count > Permutation::kCountMax)
    return fail(ErrorCode::kInvalidArgument, "an order of {} samples: the most is 2^62",
                options.sample_count);
  if (is_windowed(options.kind)) {
    if (options.shard_samples == 0)
      return fail(ErrorCode::kInvalidArgument,
                  "a windowed order needs at least 1 sample in each shard");
    if (options.kind == OrderKind::kWindowed && options.window_shards == 0)
      return fail(ErrorCode::kInvalidArgument,
                  "a windowed order needs at least 1 shard in each window");
  }
  return Order(options);
}

Order::Order(OrderOptions options) : options_(options) {
  const uint64_t count = options_.sample_count;
  if (options_.kind == OrderKind::kFull) all_ = Permutation(count);
  if (!is_windowed(options_.kind) || count == 0) return;
  // Larger shards and windows than there are samples behave as these, and products stay small.
  shard_samples_ = std::min(options_.shard_samples, count);
  shard_count_ = (count - 1) / shard_samples_ + 1;
  shard_deficit_ = shard_count_ * shard_samples_ - count;
  // Without mixing inside, windows would only be a longer way to say the same.
  const uint64_t wanted = !options_.shuffle_within ? 1
                          : options_.kind == OrderKind::kResident
                              ? std::max<uint64_t>(1, options_.resident_samples / shard_samples_)
                              : options_.window_shards;
  window_shards_ = std::min(wanted, shard_count_);
  last_window_ = (shard_count_ - 1) / window_shards_;
  const auto permutation = [](bool shuffles, uint64_t size) {
    return shuffles ? Permutation(size) : Permutation::identity(size);
  };
  shards_ = permutation(options_.shuffle_shards, shard_count_);
  const uint64_t full = window_shards_ * shard_samples_;
  const uint64_t last = (shard_count_ - last_window_ * window_shards_) * shard_samples_;
  windows_[0][0] = permutation(options_.shuffle_within, full);
  windows_[0][1] = permutation(options_.shuffle_within, full - shard_deficit_);
  windows_[1][0] = permutation(options_.shuffle_within, last);
  windows_[1][1] = permutation(options_.shuffle_within, last - shard_deficit_);
}

uint64_t Order::key(uint64_t epoch, uint64_t stream) const {
  return base::derive_seed(options_.seed, options_.change_each_epoch ? epoch : 0, stream);
}

const Permutation& Order::window(uint64_t index, bool holds_short_shard) const {
  return windows_[index == last_window_ ? 1 : 0][holds_short_shard ? 1 : 0];
}

uint64_t Order::short_shard_place(uint64_t shard_key) const {
  return shard_deficit_ == 0 ? shard_count_ : shards_.backward(shard_key, shard_count_ - 1);
}

uint64_t Order::sample_at(uint64_t epoch, uint64_t position) const {
  FB_DCHECK(position < options_.sample_count);
  switch (options_.kind) {
    case OrderKind::kSequential:
      return position;
    case OrderKind::kFull:
      return all_.forward(key(epoch, 0), position);
    case OrderKind::kWindowed:
    case OrderKind::kResident:
      return windowed_sample_at(epoch, position);
  }
  return position;
}

uint64_t Order::position_of(uint64_t epoch, uint64_t sample) const {
  FB_DCHECK(sample < options_.sample_count);
  switch (options_.kind) {
    case OrderKind::kSequential:
      return sample;
    case OrderKind::kFull:
      return all_.backward(key(epoch, 0), sample);
    case OrderKind::kWindowed:
    case OrderKind::kResident:
      return windowed_position_of(epoch, sample);
  }
  return sample;
}

void Order::samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const {
  FB_DCHECK(out.size() <= options_.sample_count && first <= options_.sample_count - out.size());
  if (is_windowed(options_.kind)) {
    windowed_samples_at(epoch, first, out);
    return;
  }
  const uint64_t key_now = key(epoch, 0);
  const bool is_full = options_.kind == OrderKind::kFull;
  for (uint64_t i = 0; i < out.size(); ++i)
    out[i] = is_full ? all_.forward(key_now, first + i) : first + i;
}

Order::EpochWindows Order::windows_of(uint64_t epoch) const {
  EpochWindows of{.epoch = epoch, .shard_key = key(epoch, kShardStream)};
  of.short_place = short_shard_place(of.shard_key);
  of.short_window = of.short_place / window_shards_;
  return of;
}

// A "place" is an index in the sequence of permuted shards. Everything after the short shard lies
// `shard_deficit_` earlier than it would among shards of full size; adding the deficit back gives
// coordinates in which plain division finds window, shard and sample.
uint64_t Order::find_window(const EpochWindows& of, uint64_t& position) const {
  const uint64_t full = window_shards_ * shard_samples_;
  if (shard_deficit_ > 0 && position >= of.short_window * full &&
      position - of.short_window * full >= window(of.short_window, true).count())
    position += shard_deficit_;
  const uint64_t window_index = position / full;
  position %= full;
  return window_index;
}

Order::Place Order::place_at(const EpochWindows& of, uint64_t window_index, uint64_t window_key,
                             uint64_t offset) const {
  const bool holds_short = window_index == of.short_window && shard_deficit_ > 0;
  const uint64_t first_place = window_index * window_shards_;
  offset = window(window_index, holds_short).forward(window_key, offset);
  if (holds_short && offset >= (of.short_place - first_place + 1) * shard_samples_ - shard_deficit_)
    offset += shard_deficit_;
  return {first_place + offset / shard_samples_, offset % shard_samples_};
}

uint64_t Order::windowed_sample_at(uint64_t epoch, uint64_t position) const {
  const EpochWindows of = windows_of(epoch);
  const uint64_t window_index = find_window(of, position);
  const Place place =
      place_at(of, window_index, key(epoch, kWindowStream + window_index), position);
  return shards_.forward(of.shard_key, place.shard_place) * shard_samples_ + place.offset;
}

// Looks each shard of a window up once where there are fewer of them than samples to place: small
// permutations cost more than large ones.
void Order::windowed_samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const {
  const EpochWindows of = windows_of(epoch);
  const bool has_table = window_shards_ <= out.size() / 2;
  std::vector<uint64_t> shards;
  uint64_t window_now = UINT64_MAX, window_key = 0;
  for (uint64_t i = 0; i < out.size(); ++i) {
    uint64_t position = first + i;
    const uint64_t window_index = find_window(of, position);
    if (window_index != window_now) {
      window_now = window_index;
      window_key = key(epoch, kWindowStream + window_index);
      const uint64_t first_place = window_index * window_shards_;
      shards.assign(has_table ? std::min(window_shards_, shard_count_ - first_place) : 0, 0);
      for (uint64_t s = 0; s < shards.size(); ++s)
        shards[s] = shards_.forward(of.shard_key, first_place + s);
    }
    const Place place = place_at(of, window_index, window_key, position);
    const uint64_t shard = has_table ? shards[place.shard_place - window_index * window_shards_]
                                     : shards_.forward(of.shard_key, place.shard_place);
    out[i] = shard * shard_samples_ + place.offset;
  }
}

uint64_t Order::windowed_position_of(uint64_t epoch, uint64_t sample) const {
  const uint64_t shard_key = key(epoch, kShardStream);
  const uint64_t short_place = short_shard_place(shard_key);
  const uint64_t short_window = short_place / window_shards_;

  const uint64_t place = shards_.backward(shard_key, sample / shard_samples_);
  const uint64_t window_index = place / window_shards_;
  const uint64_t first_place = window_index * window_shards_;
  const bool holds_short = window_index == short_window && shard_deficit_ > 0;
  uint64_t offset = (place - first_place) * shard_samples_ + sample % shard_samples_;
  if (holds_short && place > short_place) offset -= shard_deficit_;
  offset =
      window(window_index, holds_short).backward(key(epoch, kWindowStream + window_index), offset);
  const uint64_t position = window_index * window_shards_ * shard_samples_ + offset;
  return window_index > short_window ? position - shard_deficit_ : position;
}

// Orders differ when the sets of shards in their windows differ, or the order of samples inside a
// window does; how the shards of one window were permuted leaves no trace. With K shards, n_w
// shards in window w, and s_w samples: K! / prod(n_w!) * prod(s_w!). A short shard makes s_w depend
// on the window it falls into, which is one of the full windows or the last: the sum of both cases.
double Order::log2_reachable() const {
  const auto count = static_cast<double>(options_.sample_count);
  if (options_.sample_count < 2 || options_.kind == OrderKind::kSequential) return 0;
  if (options_.kind == OrderKind::kFull) return log2_factorial(count);

  const auto shards = static_cast<double>(shard_count_);
  if (!options_.shuffle_within) return options_.shuffle_shards ? log2_factorial(shards) : 0;
  const auto full_windows = static_cast<double>(last_window_);  // the last counts apart
  const auto full_shards = static_cast<double>(window_shards_);
  const auto last_shards = static_cast<double>(shard_count_ - last_window_ * window_shards_);
  const double partitions = log2_factorial(shards) - full_windows * log2_factorial(full_shards) -
                            log2_factorial(last_shards);
  const auto samples = [&](int is_last, int is_short) {
    return log2_factorial(static_cast<double>(windows_[is_last][is_short].count()));
  };
  if (!options_.shuffle_shards) return full_windows * samples(0, 0) + samples(1, 1);
  const double short_in_last =
      std::log2(last_shards / shards) + full_windows * samples(0, 0) + samples(1, 1);
  if (last_window_ == 0) return partitions + short_in_last;
  const double short_in_full = std::log2(full_windows * full_shards / shards) +
                               (full_windows - 1) * samples(0, 0) + samples(0, 1) + samples(1, 0);
  return partitions + log2_sum(short_in_last, short_in_full);
}

double Order::entropy() const {
  if (options_.sample_count < 2) return 0;
  if (options_.kind == OrderKind::kFull) return 1;
  return log2_reachable() / log2_factorial(static_cast<double>(options_.sample_count));
}

double Order::entropy_of_seed() const {
  if (options_.sample_count < 2) return 0;
  return std::min(log2_reachable(), 64.0) /
         log2_factorial(static_cast<double>(options_.sample_count));
}

uint64_t Order::fingerprint() const {
  const OrderOptions& of = options_;
  uint64_t hash = base::derive_seed(static_cast<uint64_t>(of.kind), of.sample_count,
                                    of.kind == OrderKind::kSequential ? 0 : of.seed);
  if (of.kind == OrderKind::kSequential) return hash;
  hash = base::derive_seed(hash, of.change_each_epoch ? 1 : 0);
  if (of.kind == OrderKind::kFull) return hash;
  hash = base::derive_seed(hash, shard_samples_, window_shards_);
  return base::derive_seed(hash, of.shuffle_shards ? 1 : 0, of.shuffle_within ? 1 : 0);
}

}  // namespace forebay::dataset
