// The system calls that the collector io/ebpf tells of, and what each means.
//
// Plain tables, safe to use from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "record/io_events.h"
#include "trace/model.h"

namespace forebay::record {

struct IoCallKind {
  std::string_view name;
  trace::Category category;
  unsigned flags;  // kIoBytes, kIoFd, ... of io_events.h
};
std::span<const IoCallKind> io_call_kinds();

// The kind of one call by its number, or nullptr.
const IoCallKind* io_call_kind(int number);
IoSettings io_settings();

// A request of io_uring by its opcode.
struct IoRequestKind {
  std::string_view name;
  trace::Category category;
  bool has_bytes;   // its result is a number of bytes
  bool has_offset;  // it reads or writes at an offset
};
IoRequestKind io_request_kind(uint8_t opcode);

// A request at a disk: "read", "write", "flush", "discard".
std::string_view block_operation(uint8_t operation);

}  // namespace forebay::record
