#include "ops_loop.h"

#include <atomic>
#include <thread>

#include "base/check.h"
#include "ops/pipeline.h"

namespace forebay::bench {
namespace {

// One slot of a batch that every sample is written to.
class Slot : public ops::Destination {
 public:
  std::span<std::byte> place(std::string_view /*field*/, formats::ElementType type,
                             std::span<const uint64_t> shape) override {
    uint64_t bytes = formats::element_bytes(type);
    for (const uint64_t n : shape) bytes *= n;
    memory_.resize(bytes);
    return memory_;
  }

 private:
  std::vector<std::byte> memory_;
};

void run_one(ops::Runner& runner, Slot& slot, const std::vector<unsigned char>& image,
             uint64_t sample) {
  const formats::Part part{
      "image", {.encoding = formats::Encoding::kJpeg, .bytes = std::as_bytes(std::span(image))}};
  std::vector<ops::Field> fields;
  FB_CHECK(runner.run({.seed = 1, .sample = sample}, "image", {&part, 1}, slot, fields).ok());
}

}  // namespace

double ops_loop(const std::vector<std::vector<unsigned char>>& images, int threads) {
  const std::vector<Op> list{{"decode_image", {}},
                             {"random_resized_crop", {{"size", 224}}},
                             {"flip", {}},
                             {"normalize",
                              {{"mean", std::vector<double>{0.485, 0.456, 0.406}},
                               {"std", std::vector<double>{0.229, 0.224, 0.225}}}}};
  const auto pipeline = ops::Pipeline::make(list);
  FB_CHECK(pipeline.ok());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    const auto runner = pipeline->make_runner();
    Slot slot;
    for (size_t i; (i = next.fetch_add(1)) < images.size();) run_one(*runner, slot, images[i], i);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return static_cast<double>(images.size());
}

}  // namespace forebay::bench
