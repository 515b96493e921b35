// For tests only: the process of s3_test_support.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "storage/s3_test_support.h"

namespace forebay::storage {

FakeS3Process::FakeS3Process(std::vector<std::string> arguments) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  std::vector<std::string> words = {"/usr/bin/python3",
                                    base::source_folder() + "/tests/s3/fake_s3.py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  EXPECT_EQ(::posix_spawn(&process_, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input_ = sys::ScopedFd(in[1]);
  const sys::ScopedFd output(out[0]);
  char c = 0;
  while (::read(output.get(), &c, 1) == 1 && c != '\n') port_ += c;
  EXPECT_FALSE(port_.empty()) << "the test server did not start";
}

void FakeS3Process::stop() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
}

}  // namespace forebay::storage
