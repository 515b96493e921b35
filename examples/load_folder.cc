// Reads a folder of images in shuffled batches for two epochs: the loader in thirty lines.
#include <cstdio>

#include "forebay/loader.h"

int main(int argc, char** argv) {
  forebay::LoaderOptions options;
  options.data = argc > 1 ? argv[1] : ".";
  options.batch_size = 4;
  options.shuffle = forebay::Shuffle::kFull;
  options.tail = forebay::Tail::kAll;
  options.convert_to_rgb = true;
  options.on_error = forebay::OnError::kSkip;

  const auto loader = forebay::Loader::open(options);
  if (!loader.ok()) return std::fprintf(stderr, "%s\n", loader.error().message.c_str()), 1;

  for (int epoch = 0; epoch < 2; ++epoch) {
    size_t samples = 0, bytes = 0;
    for (;;) {
      const auto batch = (*loader)->next();
      if (!batch.ok()) return std::fprintf(stderr, "%s\n", batch.error().message.c_str()), 1;
      if (!batch->has_value()) break;
      for (const forebay::Sample& sample : (*batch)->samples()) bytes += sample.bytes.size();
      samples += (*batch)->samples().size();
    }
    std::printf("epoch %d: %zu samples, %zu bytes of pixels\n", epoch, samples, bytes);
  }
  return 0;
}
