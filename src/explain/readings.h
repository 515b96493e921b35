// The readings of a counter: a value holds from its moment until the next one says otherwise, as
// recorders write only what changed; the last one until the recording's end.
//
// Pure; safe to call from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "explain/view.h"

namespace forebay::explain {

// `take(begin_ns, end_ns, value)` for each stretch of one value, in order.
template <class Take>
void for_each_reading(const View& view, trace::TrackId track, std::string_view name, Take&& take) {
  const auto rows = view.recording().rows(track);
  const auto values = view.column(view.keys().value, track);
  int64_t since = 0, held = trace::kNoValue;
  const auto end_reading = [&](int64_t until) {
    if (held != trace::kNoValue && until > since) take(since, until, trace::real_value(held));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == trace::kNoValue || view.recording().text(rows.first + i) != name) continue;
    const int64_t now = view.recording().start(rows.first + i);
    end_reading(now);
    since = now;
    held = values[i];
  }
  end_reading(view.recording().end_ns());
}

// Sums over time, for means of what several tracks or stretches say.
struct ReadingSum {
  double sum = 0, ns = 0;
  void add(double value, double held_ns) {
    sum += value * held_ns;
    ns += held_ns;
  }
  std::optional<double> mean() const { return ns > 0 ? std::optional(sum / ns) : std::nullopt; }
};

}  // namespace forebay::explain
