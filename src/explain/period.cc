#include "explain/period.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace forebay::explain {
namespace {

using Complex = std::complex<double>;

// Cooley and Tukey's, in place; the size is a power of two.
void transform(std::vector<Complex>& values) {
  const size_t n = values.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  for (size_t length = 2; length <= n; length <<= 1) {
    const double angle = -2 * std::numbers::pi / static_cast<double>(length);
    std::vector<Complex> roots(length / 2);
    for (size_t k = 0; k < roots.size(); ++k) {
      roots[k] = std::polar(1.0, angle * static_cast<double>(k));
    }
    for (size_t i = 0; i < n; i += length) {
      for (size_t k = 0; k < length / 2; ++k) {
        const Complex odd = values[i + k + length / 2] * roots[k];
        values[i + k + length / 2] = values[i + k] - odd;
        values[i + k] += odd;
      }
    }
  }
}

constexpr size_t kSlices = 1 << 15;

// Correlation of the rate with itself, by lag in slices; padded, so that the ends do not meet.
std::vector<double> autocorrelation(std::span<const int64_t> times, double slice_ns) {
  std::vector<Complex> values(2 * kSlices);
  double mean = 0;
  for (const int64_t time : times) {
    const auto slice = static_cast<size_t>(static_cast<double>(time - times[0]) / slice_ns);
    values[std::min(slice, kSlices - 1)] += 1;
  }
  // A slice full of events is one burst, however many there are.
  for (size_t i = 0; i < kSlices; ++i) {
    values[i] = std::log1p(values[i].real());
    mean += values[i].real();
  }
  mean /= static_cast<double>(kSlices);
  for (size_t i = 0; i < kSlices; ++i) values[i] -= mean;
  transform(values);
  for (Complex& value : values) value = std::norm(value);
  transform(values);
  std::vector<double> out(kSlices / 2);
  for (size_t lag = 0; lag < out.size(); ++lag) {
    // What is left of the signal at this lag is shorter.
    const double part = static_cast<double>(kSlices - lag) / static_cast<double>(kSlices);
    out[lag] = values[lag].real() / (values[0].real() * part + 1e-12);
  }
  return out;
}

}  // namespace

std::vector<PeriodPeak> find_periods(std::span<const int64_t> times) {
  std::vector<PeriodPeak> peaks;
  if (times.size() < 8 || times.back() == times.front()) return peaks;
  const double slice_ns =
      static_cast<double>(times.back() - times.front() + 1) / static_cast<double>(kSlices);
  std::vector<double> raw = autocorrelation(times, slice_ns), smooth(raw.size());
  // Periods jitter: neighbours count too.
  for (size_t lag = 0; lag < raw.size(); ++lag) {
    const size_t reach = 1 + lag / 64;
    double sum = 0;
    size_t n = 0;
    for (size_t i = lag > reach ? lag - reach : 0; i <= std::min(lag + reach, raw.size() - 1);
         i += std::max<size_t>(1, reach / 8)) {
      sum += raw[i];
      ++n;
    }
    smooth[lag] = sum / static_cast<double>(n);
  }
  for (size_t lag = 2; lag + 1 < smooth.size(); ++lag) {
    if (smooth[lag] > 0.1 && smooth[lag] >= smooth[lag - 1] && smooth[lag] > smooth[lag + 1]) {
      peaks.push_back({static_cast<int64_t>(static_cast<double>(lag) * slice_ns), smooth[lag]});
    }
  }
  std::stable_sort(peaks.begin(), peaks.end(), [](const PeriodPeak& a, const PeriodPeak& b) {
    return a.strength > b.strength;
  });
  if (peaks.size() > 5) peaks.resize(5);
  return peaks;
}

}  // namespace forebay::explain
