// A server that answers every ranged GET with zeros, a set time after it was asked: an object store
// that is far away and never busy. Plain HTTP on 127.0.0.1, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace forebay::bench {

class DelayServer {
 public:
  // Every object has `object_bytes`. Ends the program when no port can be had.
  DelayServer(int64_t delay_ns, uint64_t object_bytes);
  ~DelayServer();
  std::string endpoint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::bench
