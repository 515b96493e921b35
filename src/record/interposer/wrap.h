// How a function of libc is put behind one of ours.
//
// FB_WRAP(ssize_t, read, (int fd, void* out, size_t size)) { ... real_read(fd, out, size) ... }
// defines the symbol `read` for the observed program under a name of our own, so that it cannot
// clash with what headers declare. Optional arguments (open's mode) are always passed: they travel
// in registers whether the caller set them or not.
#pragma once

#include <dlfcn.h>

#include <cstddef>

namespace forebay::record::interposer {

// The next definition of a function behind this library. Found when the library begins, so that no
// lock of the loader is taken in the middle of the program; else at the first call.
template <class Function>
struct Real {
  const char* name;
  Function* address;

  Function* find() {
    Function* found = __atomic_load_n(&address, __ATOMIC_RELAXED);
    if (__builtin_expect(found == nullptr, 0)) {
      found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
      __atomic_store_n(&address, found, __ATOMIC_RELAXED);
    }
    return found;
  }
  template <class... Arguments>
  auto operator()(Arguments... arguments) {
    return find()(arguments...);
  }
};

}  // namespace forebay::record::interposer

#define FB_WRAP(result, name, parameters)                                                         \
  extern "C" __attribute__((visibility("default"))) result wrap_##name parameters __asm__(#name); \
  __attribute__((section("forebay_real"), used)) static Real<decltype(wrap_##name)> real_##name{  \
      #name, nullptr};                                                                            \
  result wrap_##name parameters
