// A folder is replaced as a whole or not at all, wherever the program is killed and wherever the disk is full, and no
// file of another writer is lost.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/files/whole_file.h"
#include "tests/support/problem_of.h"
#include "tests/support/test_folder.h"

namespace {

int calls_left = -1;    // calls of the functions below until the process is killed; -1: it is not killed
bool exchanges = true;  // false: as on a file system that cannot exchange two names

void count_call() {
  if (calls_left >= 0 && calls_left-- == 0) raise(SIGKILL);
}

}  // namespace

// Replace the functions of libc, to end the program before each of them.
extern "C" int fsync(int fd) {
  count_call();
  return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" ssize_t write(int fd, const void* bytes, size_t count) {
  count_call();
  return syscall(SYS_write, fd, bytes, count);
}
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  count_call();
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  count_call();
  if (exchanges) return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
  errno = EINVAL;
  return -1;
}
extern "C" int remove(const char* path) noexcept {
  count_call();
  struct stat status {};
  if (lstat(path, &status) != 0) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0));
}

namespace moescope {
namespace {

namespace fs = std::filesystem;

bool is_own(std::string_view name) {
  return name == "a" || name == "b" || name == "c";
}

using Content = std::map<std::string, std::string>;

Content content_of(const std::string& folder) {
  Content content;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    content[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return content;
}

void write_folder(const std::string& path, const Content& content) {
  WholeFolder folder(path, is_own);
  for (const auto& [name, text] : content) write_whole_file(folder.file(name), text);
  folder.finish();
}

class WholeFolders : public testing::Test {
 protected:
  void TearDown() override { exchanges = true; }

  // Runs write_folder() in another process that is killed at call `kill_at`. Returns false if it ended before.
  bool killed(int kill_at) const {
    const pid_t pid = fork();
    if (pid == 0) {
      calls_left = kill_at;
      write_folder(target_, new_);
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status);
  }
  void expect_old_or_new_after_each_kill() {
    int kills = 0;
    for (; kills < 1000; ++kills) {
      write_folder(target_, old_);
      if (!killed(kills)) break;
      const Content content = content_of(whole_folder_at(target_));
      EXPECT_TRUE(content == old_ || content == new_) << "killed at call " << kills;
    }
    EXPECT_GT(kills, 10);
    EXPECT_LT(kills, 1000);
    EXPECT_EQ(content_of(target_), new_);
    EXPECT_FALSE(fs::exists(target_ + ".partial"));
    EXPECT_FALSE(fs::exists(target_ + ".replaced"));
  }

  const TestFolder root_{"whole_folder"};
  const std::string target_ = root_ / "target";
  const Content old_{{"a", "old a"}, {"c", "old c"}}, new_{{"a", "new a"}, {"b", std::string(700'000, 'b')}};
};

TEST_F(WholeFolders, AreOldOrNewWhereverTheProgramIsKilled) {
  expect_old_or_new_after_each_kill();
}

TEST_F(WholeFolders, AreOldOrNewOnAFileSystemThatCannotExchangeNames) {
  exchanges = false;
  expect_old_or_new_after_each_kill();
}

TEST_F(WholeFolders, AreCompletedAfterAKillBetweenTwoRenames) {
  write_folder(target_, old_);
  write_folder(target_ + ".partial", new_);
  fs::rename(target_, target_ + ".replaced");
  EXPECT_EQ(whole_folder_at(target_), target_ + ".partial");
  { const WholeFolder folder(target_, is_own); }
  EXPECT_EQ(content_of(target_), new_);
  fs::rename(target_, target_ + ".replaced");
  EXPECT_EQ(content_of(whole_folder_at(target_)), new_) << "only the replaced one is left";
}

// The child's files may have 4,000 bytes.
TEST_F(WholeFolders, UnchangedIfDiskIsFull) {
  write_folder(target_, old_);
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4000, 4000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string problem = problem_of([&] { write_folder(target_, new_); });
    _exit(problem.find("cannot be written: File too large") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content_of(target_), old_);
  EXPECT_FALSE(fs::exists(target_ + ".partial"));
}

TEST_F(WholeFolders, OfOtherWritersAreRefused) {
  for (const std::string& folder : {target_, target_ + ".partial", target_ + ".replaced"}) {
    fs::create_directories(folder + "/kept");
    EXPECT_EQ(problem_of([&] { write_folder(target_, new_); }),
              folder +
                  ": holds 'kept', which would be lost, because the folder is replaced as a whole; choose another "
                  "folder, or move that file");
    EXPECT_TRUE(fs::exists(folder + "/kept"));
    fs::remove_all(folder);
  }
  fs::create_directories(root_ / "real");
  fs::create_directory_symlink(root_ / "real", target_);
  EXPECT_NE(problem_of([&] { write_folder(target_, new_); }).find("is a symbolic link to "), std::string::npos);
  fs::remove(target_);
  std::ofstream(target_) << "text";
  EXPECT_EQ(problem_of([&] { write_folder(target_, new_); }), target_ + ": is a file, expected a folder");
}

TEST_F(WholeFolders, DoNotRemoveAFileThatArrivesMeanwhile) {
  write_folder(target_, old_);
  {
    WholeFolder folder(target_, is_own);
    write_whole_file(folder.file("a"), "new a");
    std::ofstream(target_ + "/foreign") << "kept";
    folder.finish();
  }
  EXPECT_EQ(content_of(target_), (Content{{"a", "new a"}}));
  // Where the folders cannot be exchanged, the former one is moved away first.
  const std::string former = target_ + (fs::exists(target_ + ".partial") ? ".partial" : ".replaced");
  EXPECT_EQ(content_of(former), (Content{{"foreign", "kept"}}));
}

TEST_F(WholeFolders, KeepPermissionsAndMayEndWithASlash) {
  write_folder(target_ + "/", old_);
  fs::permissions(target_, fs::perms::owner_all);
  fs::permissions(target_ + "/a", fs::perms::owner_read | fs::perms::owner_write);
  write_folder(target_ + "/.", new_);
  EXPECT_EQ(content_of(target_), new_);
  EXPECT_EQ(fs::status(target_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(target_ + "/a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(WholeFolders, AreNotTheCurrentFolder) {
  write_folder(target_, old_);
  const fs::path before = fs::current_path();
  fs::current_path(target_);
  EXPECT_NE(problem_of([&] { write_folder(".", new_); }).find(".: is the current folder"), std::string::npos);
  fs::current_path(before);
  EXPECT_EQ(content_of(target_), old_);
}

}  // namespace
}  // namespace moescope
