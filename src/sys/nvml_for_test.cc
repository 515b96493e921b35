// Stands in for libnvidia-ml.so.1 in tests: two H200 with the figures of a real capture, the second
// cut by MIG into one slice that tells its memory only.
#include <cstring>

namespace {

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;
constexpr unsigned long long kMib = 1 << 20;

int devices[3];  // two cards and the slice: their addresses are the handles
int index_of(const void* device) {
  return static_cast<int>(static_cast<const int*>(device) - devices);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int nvmlInit_v2() {
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlShutdown() {
  return kSuccess;
}
__attribute__((visibility("default"))) const char* nvmlErrorString(int code) {
  return code == kNotSupported ? "Not Supported" : "Unknown Error";
}
__attribute__((visibility("default"))) int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetHandleByIndex_v2(unsigned i,
                                                                         void** device) {
  *device = &devices[i];
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetName(void* device, char* name,
                                                             unsigned size) {
  std::strncpy(name, index_of(device) == 2 ? "NVIDIA H200 MIG 1g.18gb" : "NVIDIA H200", size - 1);
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const unsigned long long total = index_of(device) == 2 ? 16'384 * kMib : 143'771 * kMib;
  *memory = {.total = total, .free = total - 1024 * kMib, .used = 1024 * kMib};
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetUtilizationRates(void* device,
                                                                         Utilization* use) {
  if (index_of(device) != 0) return kNotSupported;
  *use = {.gpu = 87, .memory = 41};
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetPowerUsage(void* device, unsigned* watts) {
  *watts = 349'210;
  return index_of(device) == 2 ? kNotSupported : kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetTotalEnergyConsumption(
    void* device, unsigned long long* energy) {
  *energy = 5'000'500;
  return index_of(device) == 2 ? kNotSupported : kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetPcieThroughput(void* device, int counter,
                                                                       unsigned* kib) {
  *kib = counter == 0 ? 100 : 2000;
  return index_of(device) == 0 ? kSuccess : kNotSupported;
}
__attribute__((visibility("default"))) int nvmlDeviceGetMigMode(void* device, unsigned* now,
                                                                unsigned* pending) {
  *now = *pending = index_of(device) == 1 ? 1 : 0;
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetMaxMigDeviceCount(void* /*device*/,
                                                                          unsigned* count) {
  *count = 7;
  return kSuccess;
}
__attribute__((visibility("default"))) int nvmlDeviceGetMigDeviceHandleByIndex(void* /*device*/,
                                                                               unsigned i,
                                                                               void** slice) {
  *slice = &devices[2];
  return i == 0 ? kSuccess : kNotFound;
}

}  // extern "C"
