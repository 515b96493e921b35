// Invariants. A failed check is a bug in Forebay: it prints where and aborts. Never for user input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace forebay::base {

[[noreturn]] inline void abort_of_bug(const std::string& what) {
  std::fprintf(stderr, "forebay: bug: %s\n", what.c_str());
  std::abort();
}

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "forebay: bug: %s does not hold at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace forebay::base

#define FB_CHECK(x) \
  ((x) ? static_cast<void>(0) : ::forebay::base::check_failed(#x, __FILE__, __LINE__))

#ifdef NDEBUG
#define FB_DCHECK(x) static_cast<void>(sizeof((x) ? 1 : 0))
#else
#define FB_DCHECK(x) FB_CHECK(x)
#endif
