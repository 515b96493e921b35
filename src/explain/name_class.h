// What names mean: of events, of the user's ranges, of functions, of files.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/model.h"

namespace forebay::explain {

// What a thread does at an instant.
enum class Doing : uint8_t {
  kOnCpu,
  kReady,  // could run, but another thread has the core
  kRead,   // or lists, maps, faults in: waits for bytes of a file
  kWrite,
  kMetadata,
  kFileSync,
  kFault,
  kNetwork,
  kLock,   // waits for another thread
  kPoll,   // waits for readiness
  kChild,  // waits for a process that it began
  kSleep,
  kCollective,
  kCopy,
  kLaunch,
  kDeviceSync,
  kUnseen,      // off the CPU, for a reason that nobody saw
  kUnrecorded,  // no event covers it, and nobody watched the CPU: runs or waits
  kOutside,     // an accelerator before its first work, or after its last
};

// What the user (or a framework) says a stretch of code is for.
enum class Purpose : uint8_t {
  kNone,
  kCompute,
  kData,
  kFetch,
  kPrepare,
  kCheckpoint,
  kSync,
  kStart,  // loads the program and its modules
};

struct NameClass {
  Doing doing = Doing::kOnCpu;
  Purpose purpose = Purpose::kNone;
  bool is_transparent = true;  // says nothing about what the thread does
  bool is_by_reason = false;   // off CPU: the argument says why
  bool is_activity = false;    // of a function or an operator: while it lasts, something is done
  bool is_operator = false;    // of a framework
};

NameClass classify(std::string_view text, trace::Category category);
// What being off the CPU for this reason means.
Doing doing_of_reason(std::string_view reason);

// By the words of a function's name: decode_jpeg, DataLoader::next, sgemm.
Purpose purpose_of_function(std::string_view symbol, std::string_view module);
// Whether a function in Python is named for reading alone: read_file, fetch, but not read_sample.
bool says_reading(std::string_view symbol);
// Whether a Python module passes messages between processes or threads, or waits for them:
// multiprocessing, queue, socket, threading, selectors. What it does is its caller's.
bool is_message_module(std::string_view module);
// By the words of a range that the user named.
Purpose purpose_of_range(std::string_view text);

enum class FileClass : uint8_t { kRegular, kPipe, kSocket, kDevice, kPseudo };
FileClass file_class(std::string_view path);
// Code and settings of the program and the system, not data: modules, libraries, what lies in /usr.
bool is_program_file(std::string_view path);
// Names that checkpoints have.
bool looks_like_checkpoint(std::string_view path);

}  // namespace forebay::explain
