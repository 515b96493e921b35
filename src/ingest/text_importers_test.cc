// Goal: each tool's text is understood as its manual has it; lines that are damaged cost only
// themselves.
#include <gtest/gtest.h>

#include "ingest/builtin.h"
#include "ingest/columns.h"
#include "ingest/line_reader.h"
#include "ingest/testing_import.h"

namespace forebay::ingest {
namespace {

using trace::Category;
using trace::EventKind;
using Arguments = std::map<std::string, std::string>;

const TestEvent& find(const TestImport& import, std::string_view name, size_t which = 0) {
  for (const TestEvent& event : import.events) {
    if (event.name == name && which-- == 0) return event;
  }
  ADD_FAILURE() << "no event " << name;
  static const TestEvent none;
  return none;
}

TEST(Strace, FollowsDescriptorsProcessesAndThreads) {
  const auto import = import_text(
      kStrace,
      R"(100 1700000000.000100 execve("/bin/python3", ["python3"], 0x7f /* 3 vars */) = 0 <0.000200>
100 1700000000.001000 openat(AT_FDCWD, "/data/a \"b\".npz", O_RDONLY|O_CLOEXEC) = 3 <0.000030>
100 1700000000.002000 pread64(3, "\177ELF = 1"..., 4096, 8192) = 4096 <0.000010>
100 1700000000.003000 clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f} <unfinished ...>
101 1700000000.003100 read(3,  <unfinished ...>
100 1700000000.003200 <... clone3 resumed> => {parent_tid=[101]}, 88) = 101 <0.000200>
101 1700000000.003300 <... read resumed>"abc", 3) = 3 <0.000200>
100 1700000000.004000 openat(AT_FDCWD, "/missing", 0) = -1 ENOENT (No such file) <0.000011>
100 1700000000.005000 futex(0x7f, FUTEX_WAIT, 1, NULL <unfinished ...>
101 1700000000.006000 --- SIGUSR1 {si_signo=SIGUSR1} ---
101 1700000000.006100 +++ exited with 0 +++
not a line of strace
100 1700000000.007000 exit_group(0)     = ?
100 1700000000.008000 +++ killed by SIGKILL +++
)");
  EXPECT_EQ(find(import, "openat").arguments, (Arguments{{"file", "/data/a \"b\".npz"}}));
  EXPECT_EQ(find(import, "openat", 1).arguments, (Arguments{{"file", "/missing"}, {"error", "2"}}));
  const TestEvent& pread = find(import, "pread64");
  EXPECT_EQ(pread.arguments,
            (Arguments{{"file", "/data/a \"b\".npz"}, {"bytes", "4096"}, {"offset", "8192"}}));
  EXPECT_EQ(pread.category, Category::kRead);
  EXPECT_EQ(pread.start_ns, 1700000000002000000);
  EXPECT_EQ(pread.duration_ns, 10000);
  const TestEvent& read = find(import, "read");
  EXPECT_EQ(read.arguments, (Arguments{{"file", "/data/a \"b\".npz"}, {"bytes", "3"}}));
  EXPECT_EQ(read.track, "host/python3 100/thread 101");  // a thread shares its process's files
  EXPECT_EQ(read.start_ns, 1700000000003100000);
  EXPECT_EQ(find(import, "clone3").arguments.at("child"), "101");
  EXPECT_EQ(find(import, "futex").category, Category::kLock);
  EXPECT_EQ(find(import, "futex").duration_ns, 3000000);  // until it was killed
  EXPECT_EQ(find(import, "SIGUSR1").kind, EventKind::kInstant);
  EXPECT_EQ(import.account.skipped, (Account::Counts{{"lines that are no call", 1}}));
  ASSERT_EQ(import.clock.size(), 1U);
  EXPECT_EQ(import.clock[0].time_ns, import.clock[0].unix_ns);
}

// The file of each read of `bytes`, however its descriptor came to be.
std::string file_of_read(const TestImport& import, int bytes) {
  for (const TestEvent& event : import.events) {
    const auto found = event.arguments.find("bytes");
    if (event.name != "read" || found == event.arguments.end()) continue;
    if (found->second != std::to_string(bytes)) continue;
    const auto file = event.arguments.find("file");
    return file == event.arguments.end() ? "" : file->second;
  }
  return "no such read";
}

// numpy reads through a copy that fcntl made: most bytes of a trace had no file.
TEST(Strace, FollowsCopiesOfDescriptors) {
  const auto import = import_text(kStrace, R"(7 17.1 openat(AT_FDCWD, "/d", O_RDONLY) = 3 <0.00001>
7 17.2 fcntl(3, F_DUPFD_CLOEXEC, 40) = 40 <0.00001>
7 17.3 read(40, "x"..., 1) = 1 <0.00001>
7 17.3 fcntl(3, F_DUPFD, 0) = 41 <0.00001>
7 17.3 read(41, "x"..., 2) = 2 <0.00001>
7 17.3 dup(3) = 4 <0.00001>
7 17.3 read(4, "x"..., 3) = 3 <0.00001>
7 17.3 dup3(4, 5, O_CLOEXEC) = 5 <0.00001>
7 17.3 read(5, "x"..., 4) = 4 <0.00001>
7 17.3 openat2(AT_FDCWD, "/e", {flags=O_RDONLY, resolve=0}, 24) = 6 <0.00001>
7 17.3 read(6, "x"..., 5) = 5 <0.00001>
7 17.3 openat(6, "rel", O_RDONLY) = 8 <0.00001>
7 17.3 read(8, "x"..., 6) = 6 <0.00001>
7 17.3 memfd_create("m", MFD_CLOEXEC) = 9 <0.00001>
7 17.3 read(9, "x"..., 7) = 7 <0.00001>
7 17.3 pidfd_open(7, 0) = 10 <0.00001>
7 17.3 pidfd_getfd(10, 3, 0) = 11 <0.00001>
7 17.3 read(11, "x"..., 8) = 8 <0.00001>
7 17.3 sendmsg(12, {msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[3]}]}, 0) = 1 <0.00001>
7 17.3 recvmsg(13, {msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[14]}]}, 0) = 1 <0.00001>
7 17.3 read(14, "x"..., 9) = 9 <0.00001>
7 17.3 mmap(0x7f00, 64, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000 <0.00001>
7 17.3 close_range(3, 40, 0) = 0 <0.00001>
7 17.3 read(14, "x"..., 10) = 10 <0.00001>
7 17.3 read(41, "x"..., 11) = 11 <0.00001>
)");
  for (const int bytes : {1, 2, 3, 4, 8, 9, 11}) EXPECT_EQ(file_of_read(import, bytes), "/d");
  EXPECT_EQ(file_of_read(import, 5), "/e");
  EXPECT_EQ(file_of_read(import, 6), "/e/rel");
  EXPECT_EQ(file_of_read(import, 7), "/memfd:m");
  EXPECT_EQ(file_of_read(import, 10), "(descriptor 14 of 7)");
  EXPECT_EQ(find(import, "mmap").arguments.at("file"), "/d");
}

TEST(Strace, TellsSocketsApartByFamily) {
  const auto import =
      import_text(kStrace, R"(7 17.1 socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0 <0.00001>
7 17.2 read(4, "x"..., 1) = 1 <0.00001>
7 17.2 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 5 <0.00001>
7 17.2 connect(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.1")}) = 0 <0.1>
7 17.2 read(5, "x"..., 2) = 2 <0.00001>
7 17.2 socket(AF_UNIX, SOCK_STREAM, 0) = 6 <0.00001>
7 17.2 connect(6, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0 <0.00001>
7 17.2 read(6, "x"..., 3) = 3 <0.00001>
7 17.2 accept4(6, {sa_family=AF_UNIX}, [110 => 2], SOCK_CLOEXEC) = 8 <0.00001>
7 17.2 read(8, "x"..., 4) = 4 <0.00001>
7 17.2 pipe2([9, 10], O_CLOEXEC) = 0 <0.00001>
7 17.2 read(9, "x"..., 5) = 5 <0.00001>
7 17.2 eventfd2(0, EFD_CLOEXEC) = 11 <0.00001>
7 17.2 read(11, "x"..., 8) = 8 <0.00001>
7 17.2 read(12<TCP:[127.0.0.1:5->10.0.0.2:90]>, "x"..., 16) = 16 <0.00001>
7 17.2 read(13<UNIX-STREAM:[12->13]>, "x"..., 17) = 17 <0.00001>
7 17.2 read(14</d/a <b>>(deleted), "x"..., 18) = 18 <0.00001>
7 17.2 read(15</dev/null<char 1:3>>, "x"..., 19) = 19 <0.00001>
7 17.2 read(16<socket:[44]>, "x"..., 20) = 20 <0.00001>
7 17.2 recvmmsg(5, [{msg_hdr={}, msg_len=30}, {msg_hdr={}, msg_len=12}], 2, 0, NULL) = 2 <0.00001>
)");
  EXPECT_EQ(file_of_read(import, 1), "unix:");
  EXPECT_EQ(file_of_read(import, 2), "tcp:10.0.0.1:80");
  EXPECT_EQ(file_of_read(import, 3), "unix:/run/x");
  EXPECT_EQ(file_of_read(import, 4), "unix:");
  EXPECT_EQ(file_of_read(import, 5), "pipe");
  EXPECT_EQ(file_of_read(import, 8), "anon_inode:[eventfd]");
  EXPECT_EQ(file_of_read(import, 16), "tcp:10.0.0.2:90");
  EXPECT_EQ(file_of_read(import, 17), "unix:[12->13]");
  EXPECT_EQ(file_of_read(import, 18), "/d/a <b>");
  EXPECT_EQ(file_of_read(import, 19), "/dev/null");
  EXPECT_EQ(file_of_read(import, 20), "socket:[44]");
  EXPECT_EQ(find(import, "recvmmsg").arguments.at("bytes"), "42");  // not 2 messages
}

TEST(Strace, ChildrenInheritWhatExecDoesNotClose) {
  const auto import =
      import_text(kStrace, R"(7 17.1 openat(AT_FDCWD, "/kept", O_RDONLY) = 3 <0.00001>
7 17.1 openat(AT_FDCWD, "/closed", O_RDONLY|O_CLOEXEC) = 4 <0.00001>
7 17.1 vfork( <unfinished ...>
8 17.2 read(4, "x"..., 1) = 1 <0.00001>
8 17.3 execve("/bin/cat", ["cat"], 0x7f /* 1 var */ <unfinished ...>
7 17.3 <... vfork resumed>) = 8 <0.001>
8 17.4 <... execve resumed>) = 0 <0.0001>
8 17.5 read(3, "x"..., 2) = 2 <0.00001>
8 17.5 read(4, "x"..., 3) = 3 <0.00001>
7 17.6 close(3) = 0 <0.00001>
8 17.7 read(3, "x"..., 4) = 4 <0.00001>
8 17.8 +++ exited with 0 +++
)");
  EXPECT_EQ(file_of_read(import, 1), "/closed");
  EXPECT_EQ(file_of_read(import, 2), "/kept");
  EXPECT_EQ(file_of_read(import, 3), "(descriptor 4 of 8)");
  EXPECT_EQ(file_of_read(import, 4), "/kept");
}

// Two forks under way: whose child it is stands behind the first of them that returns.
TEST(Strace, AChildWaitsForTheCallThatMadeIt) {
  const auto import =
      import_text(kStrace, R"(7 17.1 openat(AT_FDCWD, "/seven", O_RDONLY) = 3 <0.00001>
9 17.1 openat(AT_FDCWD, "/nine", O_RDONLY) = 3 <0.00001>
7 17.1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
9 17.1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
71 17.2 read(3, "x"..., 71) = 71 <0.00001>
91 17.2 read(3, "x"..., 91) = 91 <0.00001>
9 17.3 <... clone resumed>) = 91 <0.001>
7 17.3 <... clone resumed>) = 71 <0.001>
)");
  EXPECT_EQ(file_of_read(import, 71), "/seven");
  EXPECT_EQ(file_of_read(import, 91), "/nine");
  EXPECT_TRUE(import.account.skipped.empty());
}

// The number is free as soon as close begins: another thread may have it before close returns.
TEST(Strace, ACloseTakesNothingFromWhoGetsItsNumber) {
  const auto import = import_text(kStrace, R"(7 17.1 openat(AT_FDCWD, "/a", O_RDONLY) = 3 <0.00001>
7 17.1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 8 <0.001>
8 17.2 read(3,  <unfinished ...>
7 17.2 close(3 <unfinished ...>
8 17.3 <... read resumed>"x"..., 1) = 1 <0.001>
8 17.3 openat(AT_FDCWD, "/b", O_RDONLY) = 3 <0.00001>
7 17.4 <... close resumed>) = 0 <0.001>
7 17.5 read(3, "x"..., 2) = 2 <0.00001>
)");
  EXPECT_EQ(file_of_read(import, 1), "/a");
  EXPECT_EQ(file_of_read(import, 2), "/b");
}

// Looking for the end of each bracket alone would take minutes.
TEST(Strace, ALineOfBracketsThatNeverCloseCostsLittle) {
  std::string line = "7 17.1 read(";
  for (int i = 0; i < 200'000; ++i) line += "[1<";
  const auto import = import_text(kStrace, line + ") = 1 <0.00001>\n");
  EXPECT_EQ(find(import, "read").arguments.at("bytes"), "1");
}

TEST(Strace, TakesOtherClocksAndForms) {
  const auto import =
      import_text(kStrace, R"([pid  7] 23:59:59.900000 write(1</dev/pts/0>, "x", 1) = 1 <0.000010>
[pid  7] 00:00:00.100000 close(1</dev/pts/0>) = 0 <0.000005>
)");
  const TestEvent& write = find(import, "write");
  EXPECT_EQ(write.arguments, (Arguments{{"file", "/dev/pts/0"}, {"bytes", "1"}}));
  EXPECT_EQ(find(import, "close").start_ns - write.start_ns, 200000000);  // over midnight
  EXPECT_TRUE(import.clock.empty());
  const auto of_file = import_text(kStrace, "1700000000.5 close(3) = 0 <0.000005>\n", "out.4711");
  EXPECT_EQ(of_file.events.at(0).track, "host/process 4711/thread 4711");
}

TEST(Perf, TakesSamplesWithStacks) {
  const auto import = import_text(kPerfScript, R"(# a comment
python3 -x  4711/4713 [001] 12345.678901:   10101010 cpu-clock:u:
	    7f0c decode+0x1a (/usr/lib/libjpeg.so.62)
	    7f0d py::load:/data/train.py (/tmp/perf-4711.map)
	    7f0e [unknown] ([unknown])

python3 -x  4711/4713 [001] 12345.700000: 250 cycles: ff81 do_syscall_64+0x10 ([kernel.kallsyms])
swapper     0 [000] 12345.8: sched:sched_switch: prev_comm=swapper/0
)");
  ASSERT_EQ(import.events.size(), 3U);
  const TestEvent& first = find(import, "sample");
  EXPECT_EQ(first.kind, EventKind::kSample);
  EXPECT_EQ(first.category, Category::kOnCpu);
  EXPECT_EQ(first.track, "host/python3 -x 4711/python3 -x 4713");
  EXPECT_EQ(first.start_ns, 12345678901000);
  EXPECT_EQ(first.duration_ns, 10101010);
  EXPECT_EQ(first.arguments.at("stack"),
            "decode(/usr/lib/libjpeg.so.62) < load(/data/train.py) < ()");
  const TestEvent& second = find(import, "sample", 1);
  EXPECT_EQ(second.duration_ns, 20000000);  // cycles are no time
  EXPECT_EQ(second.arguments.at("stack"), "do_syscall_64(kernel)");
  EXPECT_EQ(find(import, "sched:sched_switch").kind, EventKind::kInstant);
}

TEST(Darshan, TakesTotalsOfFiles) {
  const auto import = import_text(kDarshan,
                                  "# darshan log version: 3.41\n# start_time: 100\n"
                                  "POSIX\t3\t9\tPOSIX_READS\t12\t/a b\t/\text4\n"
                                  "POSIX\t3\t9\tPOSIX_BYTES_READ\t4096\t/a b\t/\text4\n"
                                  "POSIX\t3\t9\tPOSIX_F_READ_TIME\t0.5\t/a b\t/\text4\n"
                                  "POSIX\t3\t9\tPOSIX_F_READ_START_TIMESTAMP\t1.5\t/a b\t/\text4\n"
                                  "POSIX\t3\t9\tbroken\n"
                                  "LUSTRE\t3\t9\tLUSTRE_OSTS\t4\t/a b\t/\text4\n");
  ASSERT_EQ(import.events.size(), 1U);
  EXPECT_EQ(import.events[0].track, "host/rank 3/POSIX");
  EXPECT_EQ(import.events[0].start_ns, 1500000000);
  EXPECT_EQ(
      import.events[0].arguments,
      (Arguments{{"file", "/a b"}, {"bytes", "4096"}, {"count", "12"}, {"total_ns", "500000000"}}));
  EXPECT_EQ(import.account.skipped, (Account::Counts{{"lines that are no counter", 1},
                                                     {"records of the module LUSTRE", 1}}));
  EXPECT_EQ(import.clock.at(0).unix_ns, 100000000000);
}

TEST(DarshanDxt, TakesEverySegment) {
  const auto import = import_text(kDarshanDxt, R"(# darshan log version: 3.41
# DXT, file_id: 9, file_name: /data/a b.npz
# DXT, rank: 2, hostname: node5
# Module    Rank  Wt/Rd  Segment  Offset  Length    Start(s)      End(s)  [OST] Pthread-ID
 X_POSIX       2   read        0            4096       262144      0.6012      0.6212  [ 3] 1399
 X_MPIIO       2  write        0               0           10      0.7000      0.6000
 X_POSIX       2   what
)");
  ASSERT_EQ(import.events.size(), 2U);
  const TestEvent& read = find(import, "read");
  EXPECT_EQ(read.track, "node5/rank 2/1399");
  EXPECT_EQ(read.start_ns, 601200000);
  EXPECT_EQ(read.duration_ns, 20000000);
  EXPECT_EQ(read.arguments,
            (Arguments{{"file", "/data/a b.npz"}, {"bytes", "262144"}, {"offset", "4096"}}));
  EXPECT_EQ(find(import, "MPI_File_write").duration_ns, 0);
  EXPECT_EQ(import.account.skipped, (Account::Counts{{"lines that are no segment", 1}}));
}

TEST(NvidiaSmi, TakesTablesInBaseUnits) {
  const auto import = import_text(
      kNvidiaSmi, R"(timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/07/03 22:10:46.109, 1, NVIDIA H200, 50 %, 2 MiB, [N/A]

# Date       Time        gpu    pwr     sm    rxpci
# YYYYMMDD   HH:MM:SS    Idx      W      %     MB/s
  20260703   22:10:47      1    300     75       2
  20260703   22:10:47      2      -      0
)");
  EXPECT_EQ(find(import, "busy_share").arguments.at("value"), "0.5");
  EXPECT_EQ(find(import, "busy_share").track, "host/NVIDIA H200 1");
  EXPECT_EQ(find(import, "used_bytes").arguments.at("value"), "2.09715e+06");
  EXPECT_EQ(find(import, "busy_share", 1).arguments.at("value"), "0.75");
  EXPECT_EQ(find(import, "busy_share", 1).start_ns - find(import, "busy_share").start_ns,
            891000000);
  EXPECT_EQ(find(import, "pcie_received_bytes_per_second").arguments.at("value"), "2e+06");
  EXPECT_EQ(find(import, "power_watts").arguments.at("value"), "300");
  EXPECT_EQ(import.events.size(), 5U);
  EXPECT_EQ(import.account.skipped,
            (Account::Counts{{"rows that are cut", 1}, {"values that are not available", 1}}));
}

TEST(Sofa, TakesItsTables) {
  const std::string header =
      "timestamp,event,duration,deviceId,copyKind,payload,bandwidth,pkt_src,pkt_dst,pid,tid,name,"
      "category\n";
  const auto gpu = import_text(kSofa,
                               header +
                                   "0.1,17,0.002,1,0,0,0,1,1,9,7,\"void gemm<float, "
                                   "1>()\",0\n0.2,1,0.1,1,1,64,1,0,1,9,7,CUDA_COPY_H2D_64B,0\nx\n",
                               "sofalog-10.0.0.7/gputrace.csv");
  EXPECT_EQ(find(gpu, "void gemm<float, 1>()").category, Category::kCompute);
  EXPECT_EQ(find(gpu, "void gemm<float, 1>()").duration_ns, 2000000);
  EXPECT_EQ(find(gpu, "CUDA_COPY_H2D_64B").arguments, (Arguments{{"bytes", "64"}}));
  EXPECT_EQ(find(gpu, "CUDA_COPY_H2D_64B").track, "sofalog-10.0.0.7/GPU 1 1/stream 7 7");
  EXPECT_EQ(gpu.account.skipped, (Account::Counts{{"rows that are cut", 1}}));
  const auto cpu = import_text(
      kSofa, header + "0.1,14.5,37.2,-1,-1,0,0,-1,-1,9,9,decode+0x1f(/lib/libjpeg.so),0\n",
      "s/cputrace.csv");
  EXPECT_EQ(find(cpu, "sample").arguments.at("stack"), "decode(/lib/libjpeg.so)");
  EXPECT_EQ(find(cpu, "sample").duration_ns, 10000000);  // not the logarithm of an address
  const auto cores = import_text(
      kSofa,
      header +
          "1,-1,0.1,3,-1,-1,-1,-1,-1,-1,-1,mpstat_core3 (usr|sys|idl|iow|irq): |60|20|15|5|0|,0\n",
      "s/mpstat.csv");
  EXPECT_EQ(find(cores, "busy_share").arguments.at("value"), "0.8");
}

TEST(Dftracer, ResolvesHashesAndQuotedNumbers) {
  const auto import = import_text(kDftracer, R"([
{"id":1,"name":"HH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"name":"node3","value":77}}
{"id":2,"name":"FH","cat":"dftracer","pid":5,"tid":5,"ph":"M",
"args":{"name":"/data/x","value":"h9"}}
{"id":3,"name":"PR","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"name":"rank","value":"4"}}
{"id":"4","name":"fread","cat":"STDIO","pid":"5","tid":"6","ts":"1727387307985825",
"dur":"10","ph":"X","args":{"hhash":77,"fhash":"h9","ret":"3","size":"100"}}
{"id":5,"name":"read","cat":"POSIX","pid":5,"tid":6,"ts":1727387307985900,
"dur":1,"ph":"X","args":{"hhash":77,"fhash":"h8","ret":-1}}
{"id":6,"name":"TFReader.yield","cat":"data_loader","pid":5,"tid":6,"ts":1727387307986000,
"dur":1,"ph":"X","args":{"step":2}}
{"id":7,"name":"read","cat":"POSIX","pid":5,)");
  EXPECT_EQ(find(import, "fread").arguments, (Arguments{{"file", "/data/x"}, {"bytes", "300"}}));
  EXPECT_EQ(find(import, "fread").track, "node3/process 5/thread 6");
  EXPECT_EQ(find(import, "read").arguments, (Arguments{{"error", "-1"}}));
  EXPECT_EQ(find(import, "TFReader.yield").category, Category::kDataWait);
  EXPECT_EQ(import.facts.at("rank"), "4");
  EXPECT_EQ(import.account.repaired.at("file names that are not defined: left out"), 1U);
  EXPECT_EQ(import.account.skipped.at("cut at the end of the file"), 1U);
}

TEST(LineReader, CutsLinesThatAreTooLong) {
  const std::string text = "a\r\n" + std::string(3 << 20, 'x') + "\nb";
  Account account;
  const auto stream = open_memory_stream(std::as_bytes(std::span(text)));
  LineReader lines(*stream, account);
  std::vector<size_t> sizes;
  std::string_view line;
  while (lines.next(line)) sizes.push_back(line.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 1 << 20, 1}));
  EXPECT_EQ(account.repaired.size(), 1U);
}

TEST(Columns, ReadsDatesAndTimes) {
  int64_t at = 0;
  EXPECT_TRUE(to_date("2023-04-04T16:33:42.959919", at));
  EXPECT_EQ(at, 1680626022959919000);
  EXPECT_TRUE(to_date("2000/02/29 00:00:00", at));
  EXPECT_EQ(at, 951782400000000000);
  EXPECT_FALSE(to_date("2023-13-04 16:33:42", at));
  EXPECT_TRUE(to_nanoseconds("1.000000001", at));
  EXPECT_EQ(at, 1000000001);
  EXPECT_FALSE(to_nanoseconds("99999999999", at));
  EXPECT_FALSE(to_nanoseconds("NaN", at));
  EXPECT_EQ(csv_columns("a, \"b, \"\"c\"\"\",,d"),
            (std::vector<std::string>{"a", "b, \"c\"", "", "d"}));
}

}  // namespace
}  // namespace forebay::ingest
