#include "sys/launcher.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace forebay::sys {
namespace {

using Getter = std::function<const char*(const char* name)>;

std::optional<int> number(const Getter& get, const char* name) {
  const char* text = get(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Launch> launched_by(const Getter& get) {
  Launch launch;
  const auto is_of = [&](const char* name, std::optional<int> rank, std::optional<int> size) {
    if (!rank || !size) return false;
    launch = {name, *rank, *size};
    return true;
  };
  const std::optional<int> slurm_size = number(get, "SLURM_STEP_NUM_TASKS");
  const std::optional<int> pmix = number(get, "PMIX_RANK");
  const std::optional<int> pmi = number(get, "PMI_RANK");
  const bool found =
      is_of("Open MPI's mpirun", number(get, "OMPI_COMM_WORLD_RANK"),
            number(get, "OMPI_COMM_WORLD_SIZE")) ||
      // With an interface of MPI only: srun also starts programs that are to run by themselves.
      ((pmi || pmix) && is_of("srun", number(get, "SLURM_PROCID"), slurm_size)) ||
      is_of("a launcher that speaks PMI", pmi, number(get, "PMI_SIZE")) ||
      is_of("a launcher that speaks PMIx", pmix, 0);
  if (!found || launch.size == 1) return std::nullopt;
  return launch;
}

std::optional<Launch> launched_by() {
  return launched_by([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace forebay::sys
