// Goes on from the newest checkpoint of a folder and saves some steps more: checkpoints in C++.
//
//   example_save_state FOLDER STEPS [keep the newest so many]
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "forebay/checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: example_save_state FOLDER STEPS [KEEP]\n"), 2;
  forebay::CheckpointOptions options;
  options.tiers = {{.place = argv[1]}};
  options.keep_last = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  options.shard_bytes_max = 64 << 10;  // several files, small as this state is

  const auto checkpointer = forebay::Checkpointer::open(options);
  if (!checkpointer.ok())
    return std::fprintf(stderr, "%s\n", checkpointer.error().message.c_str()), 1;
  uint64_t step = 0;
  if (const auto newest = (*checkpointer)->restore(); newest.ok()) step = newest->step;

  std::vector<float> weight(20'000), bias(100);
  std::iota(bias.begin(), bias.end(), 0.0F);
  for (const uint64_t last = step + std::strtoull(argv[2], nullptr, 10); step < last;) {
    ++step;
    std::iota(weight.begin(), weight.end(), static_cast<float>(step));  // "training"
    forebay::CheckpointState state;
    state.tensors = {{"weight", "float32", {200, 100}, std::as_bytes(std::span(weight))},
                     {"bias", "float32", {100}, std::as_bytes(std::span(bias))}};
    state.tree = R"({"step": )" + std::to_string(step) + "}";
    state.metadata = {{"who", "example"}};
    state.metrics = {{"loss", 1.0 / static_cast<double>(step)}};
    const auto save = (*checkpointer)->save(step, state);
    if (!save.ok()) return std::fprintf(stderr, "%s\n", save.error().message.c_str()), 1;
    std::printf("step %llu\n", static_cast<unsigned long long>(step));
  }
  const auto done = (*checkpointer)->wait();
  if (!done.ok()) return std::fprintf(stderr, "%s\n", done.error().message.c_str()), 1;
  return 0;
}
