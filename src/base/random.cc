#include "base/random.h"

#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"

namespace forebay::base {
namespace {

constexpr uint64_t rotate_left(uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

}  // namespace

Random::Random(uint64_t seed) {
  uint64_t x = seed;
  for (uint64_t& word : state_) word = mix64(x++);
  for (auto& row : lanes_)
    for (uint64_t& word : row) word = mix64(x++ ^ 0x5851f42d4c957f2du);
}

uint64_t Random::next() {
  const uint64_t result = rotate_left(state_[0] + state_[3], 23) + state_[0];
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

uint64_t Random::below(uint64_t bound) {
  FB_DCHECK(bound > 0);
  // Rejects the few values that would make some results more likely than others.
  const uint64_t limit = -bound % bound;
  uint64_t x = next();
  while (x < limit) x = next();
  return x % bound;
}

double Random::normal() {
  if (spare_normal_) {
    const double value = *spare_normal_;
    spare_normal_.reset();
    return value;
  }
  double u, v, s;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  const double factor = std::sqrt(-2 * std::log(s) / s);
  spare_normal_ = v * factor;
  return u * factor;
}

double Random::exponential() {
  return -std::log1p(-uniform());
}

// Marsaglia and Tsang 2000; shapes below 1 are boosted by one and scaled back.
double Random::gamma(double shape) {
  if (shape < 1) return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Counts exponential gaps; large means are split so that exp() does not underflow.
uint64_t Random::poisson(double mean) {
  uint64_t count = 0;
  while (mean > 500) {  // Poisson(a + b) = Poisson(a) + Poisson(b)
    double left = 500;
    while ((left -= exponential()) > 0) ++count;
    mean -= 500;
  }
  while ((mean -= exponential()) > 0) ++count;
  return count;
}

void Random::fill(std::span<std::byte> out) {
  std::byte* p = out.data();
  size_t left = out.size();
  auto s = lanes_;  // a local copy stays in registers
  while (left > 0) {
    uint64_t block[8];
    for (int i = 0; i < 8; ++i) {  // eight independent lanes: the compiler vectorises this loop
      const uint64_t sum = s[0][i] + s[3][i];
      block[i] = rotate_left(sum, 23) + s[0][i];
      const uint64_t t = s[1][i] << 17;
      s[2][i] ^= s[0][i];
      s[3][i] ^= s[1][i];
      s[1][i] ^= s[2][i];
      s[0][i] ^= s[3][i];
      s[2][i] ^= t;
      s[3][i] = rotate_left(s[3][i], 45);
    }
    const size_t n = left < sizeof block ? left : sizeof block;
    std::memcpy(p, block, n);
    p += n;
    left -= n;
  }
  lanes_ = s;
}

// std::mt19937 seeded with one 32-bit value is the initialisation numpy's RandomState(seed) uses.
struct NumpyLegacyRandom::State {
  std::mt19937 engine;
};

NumpyLegacyRandom::NumpyLegacyRandom(uint32_t seed) : state_(new State{std::mt19937(seed)}) {}
NumpyLegacyRandom::~NumpyLegacyRandom() {
  delete state_;
}

double NumpyLegacyRandom::uniform() {
  const uint32_t a = static_cast<uint32_t>(state_->engine()) >> 5;
  const uint32_t b = static_cast<uint32_t>(state_->engine()) >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

double NumpyLegacyRandom::normal(double mean, double stdev) {
  if (spare_) {
    const double value = *spare_;
    spare_.reset();
    return mean + stdev * value;
  }
  double x1, x2, r2;
  do {
    x1 = 2.0 * uniform() - 1.0;
    x2 = 2.0 * uniform() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double f = std::sqrt(-2.0 * std::log(r2) / r2);
  spare_ = f * x1;  // numpy keeps the first of the pair for the next call
  return mean + stdev * f * x2;
}

}  // namespace forebay::base
