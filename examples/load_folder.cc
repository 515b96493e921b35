// Reads a folder of images for two epochs, as arrays of a batch: the loader in thirty lines.
#include <cstdio>

#include "forebay/loader.h"

int main(int argc, char** argv) {
  forebay::LoaderOptions options;
  options.data = argc > 1 ? argv[1] : ".";
  options.ops = {{"decode_image"}, {"random_resized_crop", {{"size", 64}}}, {"flip"}};
  options.batch_size = 4;
  options.shuffle = forebay::Shuffle::kFull;
  options.tail = forebay::Tail::kAll;
  options.on_error = forebay::OnError::kSkip;

  const auto loader = forebay::Loader::open(options);
  if (!loader.ok()) return std::fprintf(stderr, "%s\n", loader.error().message.c_str()), 1;
  std::printf("%s", (*loader)->explain().text.c_str());

  for (int epoch = 0; epoch < 2; ++epoch) {
    size_t samples = 0, bytes = 0;
    for (;;) {
      const auto batch = (*loader)->next();
      if (!batch.ok()) return std::fprintf(stderr, "%s\n", batch.error().message.c_str()), 1;
      if (!batch->has_value()) break;
      const forebay::BatchField* image = (*batch)->find("image");
      samples += image->shape[0];
      bytes += image->bytes.size();
    }
    std::printf("epoch %d: %zu images, %zu bytes of pixels\n", epoch, samples, bytes);
  }
  return 0;
}
