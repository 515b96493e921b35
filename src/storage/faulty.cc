#include "storage/faulty.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "storage/fault_queue.h"
#include "storage/options.h"

namespace forebay::storage {
namespace {

constexpr std::string_view kKinds[] = {"error",  "short",  "delay",  "corrupt", "vanish",
                                       "enospc", "edquot", "estale", "kill"};
constexpr StoreOption kOptions[] = {
    {"over", "a store; with options of its own it must come last", "local",
     "the store that does the work"},
    {"kind", "error, short, delay, corrupt, vanish, enospc, edquot, estale or kill", "error",
     "what goes wrong"},
    {"fail_at", "operation number from 1; 0 = none", "0", "the operation that goes wrong"},
    {"every", "count; 0 = never", "0", "each operation whose number is a multiple goes wrong"},
    {"chance", "0..1", "0", "any operation goes wrong with this probability"},
    {"delay", "duration up to 1h", "100ms", "of kind=delay"},
    {"seed", "number", "1", "of chances, and of the bytes that are corrupted or missing"},
};

// What an operation without bytes does with a fault: an error, a wait, or nothing.
Status suffer(const std::optional<Fault>& fault, const FaultDice& dice, std::string_view doing,
              std::string_view path, std::stop_token stop = {}) {
  if (!fault || fault->kind == FaultKind::kCorrupt) return {};
  if (fault->kind == FaultKind::kDelay) {
    base::Clock& clock = base::monotonic_clock();
    clock.sleep_until_ns(clock.now_ns() + dice.plan().delay_ns, std::move(stop));
    return {};
  }
  return fault_error(*fault, doing, path);
}

class FaultyWriter final : public Writer {
 public:
  FaultyWriter(std::unique_ptr<Writer> over, FaultDice& dice, std::string_view path)
      : over_(std::move(over)), dice_(dice), path_(path) {}

  Status append(std::span<const std::byte> bytes) override {
    return write("append", bytes,
                 [&](std::span<const std::byte> changed) { return over_->append(changed); });
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    return write("patch", bytes,
                 [&](std::span<const std::byte> changed) { return over_->patch(offset, changed); });
  }
  Status sync() override {
    FB_TRY(usable());
    FB_TRY(keep(suffer(dice_.roll(), dice_, "sync", path_)));
    return over_->sync();
  }
  Status publish() override {
    FB_TRY(usable());
    FB_TRY(keep(suffer(dice_.roll(), dice_, "publish", path_)));
    return over_->publish();
  }

 private:
  template <class Write>
  Status write(std::string_view doing, std::span<const std::byte> bytes, Write over) {
    FB_TRY(usable());
    const std::optional<Fault> fault = dice_.roll();
    if (fault && fault->kind == FaultKind::kCorrupt && !bytes.empty()) {
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
      copy[fault->random % copy.size()] ^= std::byte{1};
      return over(std::span<const std::byte>(copy));
    }
    if (fault && fault->kind == FaultKind::kShort && !bytes.empty()) {
      // A write that stops half-way: part of the bytes are there, and the caller hears of it.
      FB_TRY(over(bytes.first(fault->random % bytes.size())));
    }
    FB_TRY(keep(suffer(fault, dice_, doing, path_)));
    return over(bytes);
  }
  Status usable() const {
    if (failure_) return *failure_;
    return {};
  }
  Status keep(Status status) {
    if (!status.ok()) failure_ = status.error();
    return status;
  }

  std::unique_ptr<Writer> over_;
  FaultDice& dice_;
  const std::string path_;
  std::optional<Error> failure_;  // a writer that failed stays failed
};

class FaultyStoreImpl final : public FaultyStore {
 public:
  FaultyStoreImpl(std::unique_ptr<Store> owned, Store& over, const FaultPlan& plan)
      : owned_(std::move(owned)), over_(over), dice_(plan) {}

  uint64_t operations() const override { return dice_.operations(); }
  uint64_t faults() const override { return dice_.faults(); }

  Capabilities capabilities() const override { return over_.capabilities(); }
  std::string describe() const override { return "faulty:" + over_.describe(); }

  Result<Listing> list(std::string_view prefix) override {
    const std::optional<Fault> fault = dice_.roll();
    const bool loses_one = fault && fault->kind == FaultKind::kVanish;
    if (!loses_one) FB_TRY(suffer(fault, dice_, "list", prefix, stop()));
    Listing out = FB_TRY(over_.list(prefix));
    if (loses_one && !out.files.empty()) {
      out.files.erase(out.files.begin() + static_cast<ptrdiff_t>(fault->random % out.files.size()));
    }
    return out;
  }
  Result<FileInfo> stat(std::string_view path) override {
    FB_TRY(suffer(dice_.roll(), dice_, "stat", path, stop()));
    return over_.stat(path);
  }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    return make_fault_queue(FB_TRY(over_.open_queue(options)), dice_, options);
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    const std::optional<Fault> fault = dice_.roll();
    const bool is_short = fault && fault->kind == FaultKind::kShort && !out.empty();
    if (!is_short) FB_TRY(suffer(fault, dice_, "read", path, stop()));
    const auto wanted = is_short ? out.first(fault->random % out.size()) : out;
    const size_t got = FB_TRY(over_.read_at(path, offset, wanted));
    if (fault && fault->kind == FaultKind::kCorrupt && got > 0) {
      out[fault->random % got] ^= std::byte{1};
    }
    return got;
  }
  void set_stop(std::stop_token stop) override {
    over_.set_stop(stop);
    Store::set_stop(std::move(stop));
  }
  Status make_folder(std::string_view path) override {
    FB_TRY(suffer(dice_.roll(), dice_, "make folder", path));
    return over_.make_folder(path);
  }
  Status rename_folder(std::string_view from, std::string_view to) override {
    FB_TRY(suffer(dice_.roll(), dice_, "rename folder", from));
    return over_.rename_folder(from, to);
  }
  Status link_file(std::string_view from, std::string_view to) override {
    FB_TRY(suffer(dice_.roll(), dice_, "link", from));
    return over_.link_file(from, to);
  }
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive) override {
    FB_TRY(suffer(dice_.roll(), dice_, "lock", path));
    return over_.lock_file(path, is_exclusive);
  }
  Status remove_folder(std::string_view path) override {
    FB_TRY(suffer(dice_.roll(), dice_, "remove folder", path));
    return over_.remove_folder(path);
  }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    FB_TRY(suffer(dice_.roll(), dice_, "create", path));
    std::unique_ptr<Writer> writer = FB_TRY(over_.create(path));
    return std::unique_ptr<Writer>(std::make_unique<FaultyWriter>(std::move(writer), dice_, path));
  }
  Status remove(std::string_view path) override {
    FB_TRY(suffer(dice_.roll(), dice_, "remove", path));
    return over_.remove(path);
  }
  Result<std::vector<std::string>> list_folders(std::string_view prefix) override {
    FB_TRY(suffer(dice_.roll(), dice_, "list folders", prefix, stop()));
    return over_.list_folders(prefix);
  }
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix) override {
    FB_TRY(suffer(dice_.roll(), dice_, "list unpublished", prefix, stop()));
    return over_.list_unpublished(prefix);
  }
  Status remove_unpublished(const Unpublished& one) override {
    FB_TRY(suffer(dice_.roll(), dice_, "remove unpublished", one.path));
    return over_.remove_unpublished(one);
  }
  void look_again() override { over_.look_again(); }
  Result<uint64_t> free_bytes() override {
    FB_TRY(suffer(dice_.roll(), dice_, "free bytes", over_.describe()));
    return over_.free_bytes();
  }
  uint64_t other_retries() const override { return over_.other_retries(); }

 private:
  std::unique_ptr<Store> owned_;
  Store& over_;
  FaultDice dice_;
};

Result<std::unique_ptr<Store>> wrap(std::unique_ptr<Store> over, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("faulty", kOptions, values));
  FaultPlan plan;
  plan.kind = static_cast<FaultKind>(FB_TRY(options.choice("kind", kKinds)));
  plan.fail_at = static_cast<uint64_t>(FB_TRY(options.integer("fail_at", 0, INT64_MAX)));
  plan.every = static_cast<uint64_t>(FB_TRY(options.integer("every", 0, INT64_MAX)));
  plan.chance = FB_TRY(options.number("chance", 0, 1));
  plan.delay_ns = FB_TRY(options.duration_ns("delay"));
  plan.seed = static_cast<uint64_t>(FB_TRY(options.integer("seed", 0, INT64_MAX)));
  return std::unique_ptr<Store>(make_faulty_store(std::move(over), plan));
}

}  // namespace

std::unique_ptr<FaultyStore> make_faulty_store(std::unique_ptr<Store> over, const FaultPlan& plan) {
  Store& borrowed = *over;
  return std::make_unique<FaultyStoreImpl>(std::move(over), borrowed, plan);
}

std::unique_ptr<FaultyStore> make_faulty_store(Store& over, const FaultPlan& plan) {
  return std::make_unique<FaultyStoreImpl>(nullptr, over, plan);
}

extern const Driver kFaulty;
const Driver kFaulty{.name = "faulty",
                     .summary = "another store that fails, shortens, delays or corrupts on purpose",
                     .options = kOptions,
                     .wrap = wrap};

}  // namespace forebay::storage
