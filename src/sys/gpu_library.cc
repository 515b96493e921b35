#include "sys/gpu_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace forebay::sys {
namespace {

// The part of NVML's C interface that is used; its names and numbers are fixed since long.
struct NvmlHandle;
using Device = NvmlHandle*;
struct NvmlUtilization {
  unsigned gpu, memory;  // per cent
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlPcieSent = 0, kNvmlPcieReceived = 1;  // KiB/s over the last 20 ms
constexpr unsigned kNameBytes = 96;

class Nvml : public GpuLibrary {
 public:
  ~Nvml() override {
    if (shutdown_ != nullptr) shutdown_();
    ::dlclose(library_);
  }
  explicit Nvml(void* library) : library_(library) {}
  Status begin();
  const std::vector<GpuLibrary::Device>& devices() const override { return devices_; }
  GpuReading read(size_t device) override;

 private:
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  std::string text_of(int code) const {
    return error_text_ != nullptr ? error_text_(code) : "NVML said " + std::to_string(code);
  }
  void add_device(sys::Device handle);
  void add_slices(sys::Device handle, const std::string& name);

  void* library_;
  int (*shutdown_)() = nullptr;
  const char* (*error_text_)(int) = nullptr;
  int (*name_)(sys::Device, char*, unsigned) = nullptr;
  int (*memory_)(sys::Device, NvmlMemory*) = nullptr;
  int (*utilization_)(sys::Device, NvmlUtilization*) = nullptr;
  int (*power_)(sys::Device, unsigned*) = nullptr;
  int (*energy_)(sys::Device, unsigned long long*) = nullptr;
  int (*pcie_)(sys::Device, int, unsigned*) = nullptr;
  int (*mig_count_)(sys::Device, unsigned*) = nullptr;
  int (*mig_mode_)(sys::Device, unsigned*, unsigned*) = nullptr;
  int (*mig_handle_)(sys::Device, unsigned, sys::Device*) = nullptr;
  std::vector<sys::Device> handles_;
  std::vector<GpuLibrary::Device> devices_;
};

Status Nvml::begin() {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, sys::Device*) = nullptr;
  find(init, "nvmlInit_v2");
  find(count, "nvmlDeviceGetCount_v2");
  find(by_index, "nvmlDeviceGetHandleByIndex_v2");
  find(error_text_, "nvmlErrorString");
  find(name_, "nvmlDeviceGetName");
  find(memory_, "nvmlDeviceGetMemoryInfo");
  find(utilization_, "nvmlDeviceGetUtilizationRates");
  find(power_, "nvmlDeviceGetPowerUsage");
  find(energy_, "nvmlDeviceGetTotalEnergyConsumption");
  find(pcie_, "nvmlDeviceGetPcieThroughput");
  find(mig_mode_, "nvmlDeviceGetMigMode");
  find(mig_count_, "nvmlDeviceGetMaxMigDeviceCount");
  find(mig_handle_, "nvmlDeviceGetMigDeviceHandleByIndex");
  if (init == nullptr || count == nullptr || by_index == nullptr)
    return fail(ErrorCode::kUnsupported, "the NVIDIA library is too old");
  if (const int code = init(); code != kNvmlSuccess)
    return fail(ErrorCode::kUnsupported, "NVIDIA's library: {}", text_of(code));
  find(shutdown_, "nvmlShutdown");
  unsigned devices = 0;
  if (const int code = count(&devices); code != kNvmlSuccess)
    return fail(ErrorCode::kUnsupported, "NVIDIA's library: {}", text_of(code));
  for (unsigned i = 0; i < devices; ++i) {
    sys::Device handle = nullptr;
    if (by_index(i, &handle) == kNvmlSuccess) add_device(handle);
  }
  if (handles_.empty()) return fail(ErrorCode::kUnsupported, "no NVIDIA accelerator");
  return {};
}

void Nvml::add_device(sys::Device handle) {
  GpuLibrary::Device device;
  char name[kNameBytes] = {};
  if (name_ != nullptr && name_(handle, name, kNameBytes) == kNvmlSuccess) device.name = name;
  NvmlMemory memory{};
  if (memory_ != nullptr && memory_(handle, &memory) == kNvmlSuccess)
    device.memory_bytes = memory.total;
  handles_.push_back(handle);
  devices_.push_back(device);
  add_slices(handle, device.name);
}

// Slices of a card that is cut into several by MIG; they tell their memory, the card the rest.
void Nvml::add_slices(sys::Device handle, const std::string& name) {
  unsigned mode = 0, pending = 0, count = 0;
  if (mig_mode_ == nullptr || mig_count_ == nullptr || mig_handle_ == nullptr) return;
  if (mig_mode_(handle, &mode, &pending) != kNvmlSuccess || mode == 0) return;
  if (mig_count_(handle, &count) != kNvmlSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    sys::Device slice = nullptr;
    if (mig_handle_(handle, i, &slice) != kNvmlSuccess) continue;
    GpuLibrary::Device device{.name = name + " MIG", .memory_bytes = 0, .is_mig_slice = true};
    char text[kNameBytes] = {};
    if (name_ != nullptr && name_(slice, text, kNameBytes) == kNvmlSuccess) device.name = text;
    NvmlMemory memory{};
    if (memory_ != nullptr && memory_(slice, &memory) == kNvmlSuccess)
      device.memory_bytes = memory.total;
    handles_.push_back(slice);
    devices_.push_back(std::move(device));
  }
}

GpuReading Nvml::read(size_t device) {
  GpuReading reading;
  sys::Device handle = handles_[device];
  NvmlUtilization use{};
  if (utilization_ != nullptr && utilization_(handle, &use) == kNvmlSuccess) {
    reading.busy_share = use.gpu / 100.0;
    reading.memory_busy_share = use.memory / 100.0;
  }
  NvmlMemory memory{};
  if (memory_ != nullptr && memory_(handle, &memory) == kNvmlSuccess)
    reading.used_bytes = memory.used;
  unsigned milliwatts = 0;
  if (power_ != nullptr && power_(handle, &milliwatts) == kNvmlSuccess)
    reading.power_watts = milliwatts / 1000.0;
  unsigned long long millijoules = 0;
  if (energy_ != nullptr && energy_(handle, &millijoules) == kNvmlSuccess)
    reading.energy_joules = static_cast<double>(millijoules) / 1000.0;
  unsigned kib = 0;
  if (pcie_ != nullptr && pcie_(handle, kNvmlPcieReceived, &kib) == kNvmlSuccess)
    reading.pcie_received_bytes_per_second = kib * 1024.0;
  if (pcie_ != nullptr && pcie_(handle, kNvmlPcieSent, &kib) == kNvmlSuccess)
    reading.pcie_sent_bytes_per_second = kib * 1024.0;
  return reading;
}

}  // namespace

Result<std::unique_ptr<GpuLibrary>> GpuLibrary::open(const std::string& file) {
  const std::string name = file.empty() ? "libnvidia-ml.so.1" : file;
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::kUnsupported, "no NVIDIA driver here (no {})", name);
  auto nvml = std::make_unique<Nvml>(library);
  FB_TRY(nvml->begin());
  return std::unique_ptr<GpuLibrary>(std::move(nvml));
}

}  // namespace forebay::sys
