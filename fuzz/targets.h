// One function per parser of foreign bytes: the fuzzers call them, and so does the corpus replay.
//
// Each returns normally for any input; what must not happen aborts.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace forebay::fuzz {

void fuzz_csv(std::span<const std::byte> bytes);
void fuzz_csv_packed(std::span<const std::byte> bytes);
void fuzz_hdf5(std::span<const std::byte> bytes);
void fuzz_hdf5_chunks(std::span<const std::byte> bytes);
void fuzz_indexed(std::span<const std::byte> bytes);
void fuzz_jpeg(std::span<const std::byte> bytes);
void fuzz_npy(std::span<const std::byte> bytes);
void fuzz_npz(std::span<const std::byte> bytes);
void fuzz_npz_stream(std::span<const std::byte> bytes);
void fuzz_parquet(std::span<const std::byte> bytes);
void fuzz_png(std::span<const std::byte> bytes);
void fuzz_s3(std::span<const std::byte> bytes);  // XML, headers, redirects, profile files
void fuzz_tfrecord(std::span<const std::byte> bytes);

struct Target {
  std::string_view name;  // folder below fuzz/corpus
  void (*run)(std::span<const std::byte> bytes);
};

inline constexpr std::array kTargets{
    Target{"csv", fuzz_csv},
    Target{"csv_packed", fuzz_csv_packed},
    Target{"hdf5", fuzz_hdf5},
    Target{"hdf5_chunks", fuzz_hdf5_chunks},
    Target{"indexed", fuzz_indexed},
    Target{"jpeg", fuzz_jpeg},
    Target{"npy", fuzz_npy},
    Target{"npz", fuzz_npz},
    Target{"npz_stream", fuzz_npz_stream},
    Target{"parquet", fuzz_parquet},
    Target{"png", fuzz_png},
    Target{"s3", fuzz_s3},
    Target{"tfrecord", fuzz_tfrecord},
};

}  // namespace forebay::fuzz
