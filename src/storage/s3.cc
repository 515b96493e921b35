// Objects of an S3 bucket as files: Amazon's, Ceph's, MinIO's and other servers of that protocol.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "storage/changed.h"
#include "storage/s3_client.h"
#include "storage/s3_queue.h"
#include "storage/s3_read.h"
#include "storage/s3_writer.h"
#include "storage/s3_xml.h"
#include "storage/store.h"

namespace forebay::storage {
namespace {

class S3Store final : public Store {
 public:
  explicit S3Store(std::unique_ptr<S3Client> client) : client_(std::move(client)) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = client_->config().connections;
    out.can_sync = true;  // a server answers once it holds the object for good
    return out;
  }
  std::string describe() const override { return client_->config().describe(); }

  Result<Listing> list(std::string_view prefix) override;
  Result<FileInfo> stat(std::string_view path) override;
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    const int connections = client_->config().connections;
    const int depth = std::clamp(options.depth, 1, connections);
    const int depth_max = std::clamp(options.depth_max, depth, connections);
    return std::unique_ptr<ReadQueue>(std::make_unique<S3Queue>(*client_, depth, depth_max));
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset, std::span<std::byte> out) override;
  Result<std::unique_ptr<Writer>> create(std::string_view path) override;
  Status remove(std::string_view path) override;
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix) override;
  Status remove_unpublished(const Unpublished& one) override;
  Result<uint64_t> free_bytes() override { return UINT64_MAX; }
  uint64_t other_retries() const override { return client_->other_retries(); }

 private:
  // An answer to a question about the bucket or an object, read by `parse`.
  template <class Page>
  Result<Page> ask_page(S3Ask ask, std::string_view name, Result<Page> (*parse)(std::string_view));
  Result<ListPage> list_page(const std::string& below, const std::string& token);
  // Asks what has come of it.
  Status look_at_parts(const std::string& key, Unpublished& one);
  // Puts one listed object where it belongs.
  void take(const ListedObject& object, Listing& out) const;

  const std::unique_ptr<S3Client> client_;
};

template <class Page>
Result<Page> S3Store::ask_page(S3Ask ask, std::string_view name,
                               Result<Page> (*parse)(std::string_view)) {
  FB_TRY(check_stop());
  Page page;
  const S3Client::Check check = [&](const S3Answer& answer) -> Status {
    page = FB_TRY(parse(answer.body));
    return {};
  };
  FB_TRY(client_->ask(std::move(ask), name, check, stop()));
  return page;
}

Result<ListPage> S3Store::list_page(const std::string& below, const std::string& token) {
  S3Ask ask;
  ask.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", below}};
  if (!token.empty()) ask.query.emplace_back("continuation-token", token);
  return ask_page(std::move(ask), describe(), parse_list_page);
}

void S3Store::take(const ListedObject& object, Listing& out) const {
  const std::string& prefix = client_->config().place.prefix;
  if (!object.key.starts_with(prefix)) {
    out.skipped.push_back({object.key, "the server listed it for another prefix"});
    return;
  }
  std::string path = object.key.substr(prefix.size());
  const bool is_marker = path.empty() || path.ends_with('/');
  // Tools that think in folders make empty objects of such names; they are no files.
  if (is_marker && object.size == 0) return;
  if (is_marker) {
    out.skipped.push_back({object.key, "a key that ends in '/' has no file name"});
  } else if (!is_inside(path)) {
    out.skipped.push_back({object.key, "a key that is no path below the prefix"});
  } else {
    out.files.push_back({std::move(path), object.size, object.mtime_ns});
  }
}

Result<Listing> S3Store::list(std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  const std::string below = client_->key_of(prefix) + (prefix.empty() ? "" : "/");
  Listing out;
  std::string token;
  bool is_anything = false;
  do {
    ListPage page = FB_TRY(list_page(below, token));
    is_anything = is_anything || !page.objects.empty();
    for (const ListedObject& object : page.objects) take(object, out);
    if (page.is_truncated && page.next_token == token)
      return fail(ErrorCode::kCorruption, "{}: the listing does not go on", describe());
    token = page.is_truncated ? std::move(page.next_token) : "";
  } while (!token.empty());
  if (!prefix.empty() && !is_anything)
    return fail(ErrorCode::kNotFound, "{}: No such folder in {}", prefix, describe());
  std::sort(out.files.begin(), out.files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.path < b.path; });
  return out;
}

Result<FileInfo> S3Store::stat(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  FB_TRY(check_stop());
  S3Ask ask;
  ask.method = "HEAD";
  ask.key = client_->key_of(path);
  const Result<S3Answer> answer = client_->ask(std::move(ask), path, {}, stop());
  if (!answer.ok()) {
    if (answer.error().code == ErrorCode::kNotFound) return Error(answer.error());
    // An answer to HEAD has no body that says why; one to GET has.
    std::byte first{};
    const Result<size_t> again = read_at(path, 0, {&first, 1});
    return again.ok() ? Error(answer.error()) : Error(again.error());
  }
  const auto range = content_range(answer->head);
  if (!range)
    return fail(ErrorCode::kCorruption, "{}: the server does not say how long it is", path);
  return FileInfo{std::string(path), range->total,
                  parse_http_time_ns(answer->head.field("last-modified"))};
}

Result<size_t> S3Store::read_at(std::string_view path, uint64_t offset, std::span<std::byte> out) {
  if (!is_inside(path)) return outside_error(path);
  FB_TRY(check_stop());
  if (out.empty()) return size_t{0};
  base::Mutex mutex;
  base::CondVar done_ready;
  bool is_done = false;
  // By the class that serves queues, so that retries, ranges and checks are the same.
  S3Read reading(*client_, [&](S3Read&) {
    base::MutexLock lock(mutex);
    is_done = true;
    done_ready.notify_all();  // under the lock: the waiter ends all this once it has it
  });
  const Read read{.path = path, .offset = offset, .length = out.size(), .destination = out.data()};
  client_->loop().post([&] { reading.start(read); });
  bool is_left = false;
  {
    base::MutexLock lock(mutex);
    done_ready.wait(mutex, stop(), [&] { return is_done; });
    is_left = !is_done;
  }
  if (is_left) {  // once the loop's thread has let go of it
    client_->loop().post([&] {
      reading.cancel();
      base::MutexLock lock(mutex);
      is_left = false;
      done_ready.notify_all();
    });
    base::MutexLock lock(mutex);
    done_ready.wait(mutex, {}, [&] { return !is_left; });
    return fail(ErrorCode::kCancelled, "{}: stopped", path);
  }
  Completion& done = reading.completion();
  client_->count_retries(done.retries);
  // Short at the end of the object is what this function is for.
  if (!done.status.ok() && !reading.is_past_end()) return std::move(done.status).error();
  return static_cast<size_t>(done.bytes);
}

Result<std::unique_ptr<Writer>> S3Store::create(std::string_view path) {
  if (!is_inside(path) || path.ends_with('/')) return outside_error(path);
  return std::unique_ptr<Writer>(std::make_unique<S3Writer>(*client_, path));
}

Status S3Store::remove(std::string_view path) {
  // A server says yes to the removal of what is not there.
  FB_TRY(stat(path));
  S3Ask ask;
  ask.method = "DELETE";
  ask.key = client_->key_of(path);
  FB_TRY(client_->ask(std::move(ask), path));
  return {};
}

Status S3Store::look_at_parts(const std::string& key, Unpublished& one) {
  std::string after;
  do {
    S3Ask ask;
    ask.key = key;
    ask.query = {{"uploadId", one.upload}};
    if (!after.empty()) ask.query.emplace_back("part-number-marker", after);
    const PartPage page = FB_TRY(ask_page(std::move(ask), one.path, parse_part_page));
    one.bytes += page.bytes;
    one.mtime_ns = std::max(one.mtime_ns, page.newest_ns);
    if (page.is_truncated && page.next_number == after)
      return fail(ErrorCode::kCorruption, "{}: the listing of parts does not go on", one.path);
    after = page.is_truncated ? page.next_number : "";
  } while (!after.empty());
  return {};
}

Result<std::vector<Unpublished>> S3Store::list_unpublished(std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  const std::string below = client_->key_of(prefix) + (prefix.empty() ? "" : "/");
  const std::string& root = client_->config().place.prefix;
  std::vector<Unpublished> out;
  std::string key, id;
  do {
    S3Ask ask;
    ask.query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", below}};
    if (!key.empty()) ask.query.emplace_back("key-marker", key);
    if (!id.empty()) ask.query.emplace_back("upload-id-marker", id);
    const UploadPage page = FB_TRY(ask_page(std::move(ask), describe(), parse_upload_page));
    for (const ListedUpload& upload : page.uploads) {
      if (!upload.key.starts_with(below) || !is_inside(upload.key.substr(root.size()))) continue;
      Unpublished one{upload.key.substr(root.size()), upload.id, 0, upload.begun_ns};
      Status looked = look_at_parts(upload.key, one);
      if (looked.ok()) out.push_back(std::move(one));
      // It has ended meanwhile.
      if (!looked.ok() && looked.error().code != ErrorCode::kNotFound) return looked.error();
    }
    if (page.is_truncated && page.next_key == key && page.next_id == id)
      return fail(ErrorCode::kCorruption, "{}: the listing of uploads does not go on", describe());
    key = page.is_truncated ? page.next_key : "";
    id = page.is_truncated ? page.next_id : "";
  } while (!key.empty());
  std::sort(out.begin(), out.end(),
            [](const Unpublished& a, const Unpublished& b) { return a.path < b.path; });
  return out;
}

Status S3Store::remove_unpublished(const Unpublished& one) {
  if (!is_inside(one.path)) return outside_error(one.path);
  FB_TRY(check_stop());
  S3Ask ask;
  ask.method = "DELETE";
  ask.key = client_->key_of(one.path);
  // Without it the object itself would go.
  if (one.upload.empty()) return fail(ErrorCode::kNotFound, "{}: no upload", one.path);
  ask.query = {{"uploadId", one.upload}};
  FB_TRY(client_->ask(std::move(ask), one.path, {}, stop()));
  return {};
}

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  const S3Config config = FB_TRY(read_s3_config(root, values, process_surroundings()));
  return std::unique_ptr<Store>(std::make_unique<S3Store>(FB_TRY(S3Client::open(config))));
}

}  // namespace

extern const Driver kS3;
const Driver kS3{.name = "s3",
                 .summary = "objects of an S3 bucket (the root is s3://BUCKET/PREFIX)",
                 .options = s3_options(),
                 .open = open};

}  // namespace forebay::storage
