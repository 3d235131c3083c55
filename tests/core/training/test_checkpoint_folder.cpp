// Checkpoints on the disk: written to it before they get their name, and refused if runs.txt belongs to other runs.
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/training/checkpoint_folder.h"

namespace {

std::vector<std::string> calls;  // "sync PATH", "rename FROM TO"

}  // namespace

// Replace the functions of libc, to record the order of their calls.
extern "C" int fsync(int fd) {
  char path[PATH_MAX];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  calls.push_back("sync " + std::string(path, static_cast<std::size_t>(n < 0 ? 0 : n)));
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  calls.push_back(std::string("rename ") + from + ' ' + to);
  return static_cast<int>(syscall(SYS_rename, from, to));
}

namespace moescope {
namespace {

namespace fs = std::filesystem;

class CheckpointFolder : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    calls.clear();
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(std::int64_t step, const std::vector<std::string>& names) const {
    std::vector<RunToSave> runs;
    for (const std::string& name : names)
      runs.push_back({name, [name](const std::string& file) { std::ofstream(file) << name; }});
    write_checkpoint(folder_, step, runs);
  }
  std::string problem() const {
    try {
      newest_checkpoint(folder_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
  static std::ptrdiff_t place_of(const std::string& call) {
    const auto found = std::find(calls.begin(), calls.end(), call);
    return found == calls.end() ? -1 : found - calls.begin();
  }

  const std::string folder_ = (fs::temp_directory_path() / ("moescope_folder_" + std::to_string(getpid()))).string();
};

TEST_F(CheckpointFolder, IsOnTheDiskBeforeItHasItsName) {
  write(7, {"b", "a"});
  const std::string partial = folder_ + "/7.partial";
  const auto named = place_of("rename " + partial + ' ' + folder_ + "/7");
  ASSERT_GE(named, 0);
  for (const std::string& path :
       {partial + "/a.safetensors", partial + "/b.safetensors", partial + "/runs.txt", partial}) {
    const auto synced = place_of("sync " + path);
    EXPECT_GE(synced, 0) << path;
    EXPECT_LT(synced, named) << path;
  }
  EXPECT_GT(place_of("sync " + folder_), named) << "the name itself";
}

TEST_F(CheckpointFolder, RunsEqualRunsOfOrderFile) {
  write(7, {"b", "a"});
  const auto files = newest_checkpoint(folder_);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(fs::path(files[0]).stem(), "b");
  EXPECT_EQ(fs::path(files[1]).stem(), "a");
  const std::string order = folder_ + "/7/runs.txt";
  std::string text;
  std::getline(std::ifstream(order), text, '\0');
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    std::ofstream(order, std::ios::binary) << flipped;
    EXPECT_EQ(problem().find(order + ": damaged checkpoint"), 0u) << "bit " << bit << ": " << problem();
  }
  fs::remove(order);
  EXPECT_EQ(fs::path(newest_checkpoint(folder_).front()).stem(), "a") << "by name, where nothing says otherwise";
}

TEST_F(CheckpointFolder, FailedSyncLeavesNoCheckpoint) {
  write(7, {"a"});
  const auto link = [](const std::string& file) { fs::create_symlink("/nowhere", file); };  // cannot be opened
  EXPECT_THROW(write_checkpoint(folder_, 7, {{"a", link}}), std::runtime_error);
  EXPECT_EQ(checkpoint_steps(folder_), std::vector<std::int64_t>{7}) << "the one before stays";
  EXPECT_EQ(problem(), "none");
}

// A checkpoint that replaces one of the same step has two renames where the file system cannot exchange two names.
TEST_F(CheckpointFolder, IsFoundAfterAKillBetweenTheLastTwoRenames) {
  write(3, {"a"});
  write(7, {"a"});
  write(8, {"b", "a"});
  fs::rename(folder_ + "/7", folder_ + "/7.replaced");
  fs::rename(folder_ + "/8", folder_ + "/7.partial");
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(newest_checkpoint(folder_),
            (std::vector<std::string>{folder_ + "/7.partial/b.safetensors", folder_ + "/7.partial/a.safetensors"}));
  fs::remove_all(folder_ + "/7.partial");
  EXPECT_EQ(newest_checkpoint(folder_), std::vector<std::string>{folder_ + "/7.replaced/a.safetensors"});
  write(7, {"c"});
  EXPECT_EQ(newest_checkpoint(folder_), std::vector<std::string>{folder_ + "/7/c.safetensors"});
  EXPECT_FALSE(fs::exists(folder_ + "/7.replaced"));
}

TEST_F(CheckpointFolder, OtherFilesInItAreKept) {
  write(7, {"a"});
  std::ofstream(folder_ + "/7/notes.txt") << "mine";
  EXPECT_THROW(write(7, {"b"}), std::runtime_error);
  EXPECT_EQ(newest_checkpoint(folder_), std::vector<std::string>{folder_ + "/7/a.safetensors"});
  remove_checkpoint(folder_, 7);
  EXPECT_TRUE(fs::exists(folder_ + "/7/notes.txt"));
  EXPECT_EQ(checkpoint_steps(folder_), std::vector<std::int64_t>{});
}

}  // namespace
}  // namespace moescope
