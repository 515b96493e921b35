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
void fuzz_darshan(std::span<const std::byte> bytes);  // both texts, and DXT's
void fuzz_dftracer(std::span<const std::byte> bytes);
void fuzz_example(std::span<const std::byte> bytes);
void fuzz_hdf5(std::span<const std::byte> bytes);
void fuzz_hdf5_chunks(std::span<const std::byte> bytes);
void fuzz_index_cache(std::span<const std::byte> bytes);  // with its checksums put right
void fuzz_indexed(std::span<const std::byte> bytes);
void fuzz_jpeg(std::span<const std::byte> bytes);
void fuzz_kineto(std::span<const std::byte> bytes);
void fuzz_lines(std::span<const std::byte> bytes);
void fuzz_npy(std::span<const std::byte> bytes);
void fuzz_npz(std::span<const std::byte> bytes);
void fuzz_npz_stream(std::span<const std::byte> bytes);
void fuzz_manifest(std::span<const std::byte> bytes);  // of a checkpoint
void fuzz_nvidia_smi(std::span<const std::byte> bytes);
void fuzz_ops(std::span<const std::byte> bytes);  // a list of ops, then an image
void fuzz_parquet(std::span<const std::byte> bytes);
void fuzz_patterns(std::span<const std::byte> bytes);
void fuzz_perf(std::span<const std::byte> bytes);
void fuzz_png(std::span<const std::byte> bytes);
void fuzz_s3(std::span<const std::byte> bytes);  // XML, headers, redirects, profile files
void fuzz_safetensors(std::span<const std::byte> bytes);
void fuzz_sofa(std::span<const std::byte> bytes);
void fuzz_strace(std::span<const std::byte> bytes);
void fuzz_tfrecord(std::span<const std::byte> bytes);
void fuzz_tokens(std::span<const std::byte> bytes);
void fuzz_trace(std::span<const std::byte> bytes);
void fuzz_webdataset(std::span<const std::byte> bytes);

struct Target {
  std::string_view name;  // folder below fuzz/corpus
  void (*run)(std::span<const std::byte> bytes);
};

inline constexpr std::array kTargets{
    Target{"csv", fuzz_csv},
    Target{"csv_packed", fuzz_csv_packed},
    Target{"darshan", fuzz_darshan},
    Target{"dftracer", fuzz_dftracer},
    Target{"example", fuzz_example},
    Target{"hdf5", fuzz_hdf5},
    Target{"hdf5_chunks", fuzz_hdf5_chunks},
    Target{"index_cache", fuzz_index_cache},
    Target{"indexed", fuzz_indexed},
    Target{"jpeg", fuzz_jpeg},
    Target{"kineto", fuzz_kineto},
    Target{"lines", fuzz_lines},
    Target{"manifest", fuzz_manifest},
    Target{"npy", fuzz_npy},
    Target{"npz", fuzz_npz},
    Target{"npz_stream", fuzz_npz_stream},
    Target{"nvidia_smi", fuzz_nvidia_smi},
    Target{"ops", fuzz_ops},
    Target{"parquet", fuzz_parquet},
    Target{"patterns", fuzz_patterns},
    Target{"perf", fuzz_perf},
    Target{"png", fuzz_png},
    Target{"s3", fuzz_s3},
    Target{"safetensors", fuzz_safetensors},
    Target{"sofa", fuzz_sofa},
    Target{"strace", fuzz_strace},
    Target{"tfrecord", fuzz_tfrecord},
    Target{"tokens", fuzz_tokens},
    Target{"trace", fuzz_trace},
    Target{"webdataset", fuzz_webdataset},
};

}  // namespace forebay::fuzz
