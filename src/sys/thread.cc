#include "sys/thread.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/error.h"
#include "sys/process.h"

namespace forebay::sys {

Result<std::jthread> start_thread(std::string name, std::function<void(std::stop_token)> body) {
  try {
    return std::jthread([name = std::move(name), body = std::move(body)](std::stop_token stop) {
      name_thread(name);
      body(std::move(stop));
    });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kResourceExhausted,
                "cannot start another thread after {} ({}): raise `ulimit -u`, `ulimit -v` or the "
                "container's limits, or use fewer accelerators or reader.read_threads",
                thread_count(), error.what());
  }
}

void exit_now(int code) {
  _exit(code);
}

}  // namespace forebay::sys
