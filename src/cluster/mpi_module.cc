// A Channel over MPI's two-sided calls. Nothing here blocks but the start and the end.
#define OMPI_SKIP_MPICXX 1  // NOLINT(readability-identifier-naming): its name
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <list>
#include <memory>
#include <utility>

#include "base/error.h"
#include "cluster/mpi_module.h"

namespace forebay::cluster {
namespace {

constexpr int kTag = 1;

Status checked(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fail(ErrorCode::kIo, "{}: {}", call, text);
}

class MpiChannel : public Channel {
 public:
  MpiChannel() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status send(int to, std::string bytes) override {
    if (bytes.size() > INT_MAX)
      return fail(ErrorCode::kResourceExhausted, "a message of {} bytes is too long for MPI",
                  bytes.size());
    Sending& sending = sending_.emplace_back();
    sending.bytes = std::move(bytes);
    return checked(MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                             to, kTag, MPI_COMM_WORLD, &sending.request),
                   "MPI_Isend");
  }

  Result<std::optional<Message>> receive() override {
    FB_TRY(finish_sends());
    if (!is_receiving_) FB_TRY(begin_receive());
    if (!is_receiving_) return std::optional<Message>();
    int done = 0;
    FB_TRY(checked(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done == 0) return std::optional<Message>();
    is_receiving_ = false;
    return std::optional<Message>(std::move(message_));
  }

  bool has_unsent() const override { return !sending_.empty(); }

  void close(bool in_order) override {
    if (in_order) MPI_Finalize();
  }

 private:
  struct Sending {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Status finish_sends() {
    for (auto it = sending_.begin(); it != sending_.end();) {
      int done = 0;
      FB_TRY(checked(MPI_Test(&it->request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
      it = done != 0 ? sending_.erase(it) : std::next(it);
    }
    return {};
  }

  // One message at a time: the next one of the same process must not overtake it.
  Status begin_receive() {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    FB_TRY(checked(MPI_Improbe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &found, &handle, &status),
                   "MPI_Improbe"));
    if (found == 0) return {};
    int length = 0;
    MPI_Get_count(&status, MPI_BYTE, &length);
    message_ = {status.MPI_SOURCE, std::string(static_cast<size_t>(std::max(0, length)), '\0')};
    is_receiving_ = true;
    return checked(MPI_Imrecv(message_.bytes.data(), length, MPI_BYTE, &handle, &request_),
                   "MPI_Imrecv");
  }

  int rank_ = 0, size_ = 1;
  std::list<Sending> sending_;  // addresses stay while MPI reads them
  Message message_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_receiving_ = false;
};

Channel* open_channel(char* why, size_t why_bytes) {
  int provided = MPI_THREAD_SINGLE;
  // Calls come from several threads, one at a time.
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED) {
    std::snprintf(why, why_bytes, "MPI_Init_thread: error %d, thread level %d, needs %d", code,
                  provided, MPI_THREAD_SERIALIZED);
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::make_unique<MpiChannel>().release();
}

}  // namespace
}  // namespace forebay::cluster

extern "C" __attribute__((visibility("default"))) forebay::cluster::Channel* forebay_open_mpi_1(
    char* why, size_t why_bytes) {
  return forebay::cluster::open_channel(why, why_bytes);
}
