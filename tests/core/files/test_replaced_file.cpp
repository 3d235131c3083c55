// A file that WholeFile replaces. tests/portable runs this with the branch for systems other than Linux.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/files/whole_file.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class ReplacedFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moescope_replaced_file_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "file").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string text() {
    std::stringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  std::size_t files() { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
  std::string path_;
};

TEST_F(ReplacedFile, HasAllNewBytesAndItsPermissions) {
  std::ofstream(path_) << "old";
  ::chmod(path_.c_str(), 0640);
  const std::string large(3 << 20, 'x');
  WholeFile file(path_);
  file.write("new");
  file.write(large);
  EXPECT_EQ(text(), "old");
  file.finish();
  EXPECT_EQ(text(), "new" + large);
  EXPECT_EQ(files(), 1u);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(ReplacedFile, StaysIfTheNewOneIsNotFinished) {
  std::ofstream(path_) << "old";
  { WholeFile(path_).write("new"); }
  EXPECT_EQ(text(), "old");
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace moescope
