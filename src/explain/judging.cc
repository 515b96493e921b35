#include "explain/judging.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace forebay::explain {

std::string time_text(double ns) {
  return base::format_seconds(ns * 1e-9);
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

double share_of(int64_t ns, const Findings& findings) {
  const int64_t total = findings.total_ns();
  return total == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(total);
}

namespace {

// Any of the words is in a file or module that the recording names.
bool names_any(const Findings& findings, std::span<const std::string_view> words) {
  const auto& texts = findings.view.words().texts;
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return text.find(word) != std::string::npos; });
  });
}

}  // namespace

bool uses_torch(const Findings& findings) {
  constexpr std::array<std::string_view, 4> kWords{"/torch/", "libtorch", "aten::", "ProfilerStep"};
  return names_any(findings, kWords);
}

bool uses_pictures(const Findings& findings) {
  constexpr std::array<std::string_view, 13> kWords{
      "libjpeg", "libturbojpeg", "libpng", "libwebp", "/PIL/", "_imaging",   "cv2",
      ".jpg",    ".jpeg",        ".JPEG",  ".png",    ".webp", "decode_jpeg"};
  return names_any(findings, kWords);
}

int64_t ready_inside(const Findings& findings, Part part) {
  int64_t ns = 0;
  for (const Cause& cause : findings.found.causes) {
    const bool is_ready = cause.what.ends_with(kWithoutCore) && cause.what != kReadyCause;
    if (cause.part == part && is_ready) ns += cause.ns;
  }
  return ns;
}

namespace {

// Main threads of processes that training began, and that did something for it. A shell or a probe
// lives for a moment only.
bool is_worker(const Findings& f, const HelperUse& helper) {
  const trace::TrackId process = f.view.process_of(helper.thread);
  if (process == trace::kNoId) return false;
  if (f.view.track(process).number != f.view.track(helper.thread).number) return false;
  const bool is_of_training =
      std::any_of(f.time.drivers.begin(), f.time.drivers.end(), [&](const DriverTime& driver) {
        const bool is_thread = driver.plan.host_thread == trace::kNoId;
        const trace::TrackId own =
            f.view.process_of(is_thread ? driver.plan.track : driver.plan.host_thread);
        return own != trace::kNoId && f.view.parent_process(process) == own;
      });
  constexpr int64_t kLastingNs = 100'000'000;
  return is_of_training && helper.all.busy() * 50 >= helper.life_ns && helper.life_ns >= kLastingNs;
}

}  // namespace

Workers workers_of(const Findings& f) {
  Workers out;
  std::vector<std::pair<int64_t, int>> changes;  // when, by how many
  int64_t lived_ns = 0;
  for (const HelperUse& helper : f.time.helpers) {
    if (!is_worker(f, helper)) continue;
    ++out.begun;
    lived_ns += helper.life_ns;
    changes.emplace_back(helper.end_ns - helper.life_ns, 1);
    changes.emplace_back(helper.end_ns, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t any_ns = 0, since_ns = 0;
  int alive = 0;
  for (const auto& [at_ns, by] : changes) {
    if (alive > 0) any_ns += at_ns - since_ns;
    since_ns = at_ns;
    alive += by;
  }
  const auto drivers = static_cast<double>(std::max<size_t>(1, f.time.drivers.size()));
  if (any_ns > 0) {
    const double together = static_cast<double>(lived_ns) / static_cast<double>(any_ns);
    out.at_a_time = static_cast<uint64_t>(std::max(1.0, std::round(together / drivers)));
  }
  return out;
}

std::optional<uint64_t> workers_wanted(const Findings& f, const Workers& now, int64_t work_ns) {
  const auto drivers = static_cast<int64_t>(std::max<size_t>(1, f.time.drivers.size()));
  const int64_t stalls = f.shown[Part::kFetchStall] + f.shown[Part::kPrepStall];
  // What is left of a rank's step when it waits for no data.
  const int64_t rest = std::max<int64_t>(1, (f.total_ns() - stalls) / drivers);
  const int64_t each = work_ns / drivers;
  const auto needed = static_cast<uint64_t>((each + rest - 1) / rest);
  const auto most = static_cast<uint64_t>(std::max(2, f.cores));
  const uint64_t wanted = std::clamp<uint64_t>(needed, 2, most);
  return wanted > now.at_a_time ? std::optional(wanted) : std::nullopt;
}

void applies(Advice& advice, std::string title, std::string evidence, double gain_ns,
             std::vector<std::string> remedies) {
  advice.state = Advice::State::kApplies;
  advice.title = std::move(title);
  advice.evidence = std::move(evidence);
  advice.gain_ns = static_cast<int64_t>(std::max(0.0, gain_ns));
  advice.remedies = std::move(remedies);
}

void not_needed(Advice& advice, std::string evidence) {
  advice.state = Advice::State::kNotNeeded;
  advice.evidence = std::move(evidence);
}

void no_evidence(Advice& advice, std::string what) {
  advice.state = Advice::State::kNoEvidence;
  advice.evidence = std::move(what);
}

}  // namespace forebay::explain
