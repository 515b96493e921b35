// Random numbers from a stated seed. No generator here reads the clock or the system's entropy.
//
// One thread at a time per generator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace forebay::base {

// Mixes 64 bits so that any input bit changes half the output bits (the SplitMix64 finaliser,
// Steele, Lea and Flood 2014).
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A seed for a named part of a run: independent streams from one user seed.
constexpr uint64_t derive_seed(uint64_t seed, uint64_t a, uint64_t b = 0) {
  return mix64(mix64(mix64(seed) ^ a) ^ (b + 0x632be59bd9b4e019u));
}

// xoshiro256++ (Blackman and Vigna 2018), state filled by mix64.
class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t next();
  double uniform();                // in [0, 1)
  uint64_t below(uint64_t bound);  // in [0, bound), without bias; bound > 0
  double normal();                 // mean 0, standard deviation 1
  double exponential();            // mean 1
  double gamma(double shape);      // scale 1; shape > 0
  uint64_t poisson(double mean);   // mean >= 0

  // Incompressible bytes at memory speed. Not the same stream as next().
  void fill(std::span<std::byte> out);

 private:
  std::array<uint64_t, 4> state_;
  std::array<std::array<uint64_t, 8>, 4> lanes_;  // eight interleaved generators for fill()
  std::optional<double> spare_normal_;
};

// numpy.random.RandomState(seed).normal(): MT19937 with the polar method in numpy's order, so that
// file sizes drawn from DLIO's seed are DLIO's sizes.
class NumpyLegacyRandom {
 public:
  explicit NumpyLegacyRandom(uint32_t seed);
  ~NumpyLegacyRandom();
  NumpyLegacyRandom(const NumpyLegacyRandom&) = delete;
  NumpyLegacyRandom& operator=(const NumpyLegacyRandom&) = delete;

  double uniform();  // 53 random bits in [0, 1)
  double normal(double mean, double stdev);

 private:
  struct State;
  State* state_;
  std::optional<double> spare_;
};

}  // namespace forebay::base
