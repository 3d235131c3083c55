// A reader of a folder reads no file outside of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/files/folder_walk.h"
#include "tests/support/problem_of.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class FolderWalks : public testing::Test {
 protected:
  void SetUp() override {
    put("secret/file");
    put("in/a");
    put("in/below/b");
  }
  void put(const std::string& name) const {
    fs::create_directories(fs::path(root_ / name).parent_path());
    std::ofstream(root_ / name) << name;
  }
  std::vector<std::string> visited(const std::string& folder, int deepest = 8) const {
    std::vector<std::string> names;
    visit_files_below(folder, deepest, [&](const fs::path& file) {
      names.push_back(file.lexically_relative(folder).string());
      return true;
    });
    std::ranges::sort(names);
    return names;
  }

  const TestFolder root_{"folder_walk"};
  const std::string in_ = root_ / "in";
};

using FileNames = std::vector<std::string>;

TEST_F(FolderWalks, FollowLinksWithinTheFolderOnly) {
  fs::create_symlink("below/b", in_ + "/inner");
  fs::create_directory_symlink(".", in_ + "/loop");
  fs::create_symlink(root_ / "secret/file", in_ + "/absolute");
  fs::create_symlink("../../secret/file", in_ + "/below/relative");
  fs::create_directory_symlink("../secret", in_ + "/folder");
  fs::create_symlink("absolute", in_ + "/by_way_of_another");
  fs::create_symlink("nowhere", in_ + "/dangling");
  EXPECT_EQ(visited(in_), (FileNames{"a", "below/b", "inner"}));
  EXPECT_EQ(links_out_of(in_, 8), (std::vector<fs::path>{in_ + "/absolute", in_ + "/below/relative",
                                                         in_ + "/by_way_of_another", in_ + "/folder"}));
  EXPECT_EQ(visited(in_, 0), (FileNames{"a", "inner"}));
}

TEST_F(FolderWalks, TheFolderItselfMayBeALink) {
  fs::create_directory_symlink("in", root_ / "latest");
  EXPECT_EQ(visited(root_ / "latest"), (FileNames{"a", "below/b"}));
}

TEST_F(FolderWalks, AFolderWithTheSameBeginningIsAnotherFolder) {
  put("in_other/file");
  fs::create_symlink("../in_other/file", in_ + "/link");
  EXPECT_TRUE(leads_out_of(in_, in_ + "/link"));
  EXPECT_FALSE(leads_out_of(in_, in_ + "/a"));
  EXPECT_FALSE(leads_out_of(in_, in_ + "/nothing"));
  EXPECT_EQ(problem_of([&] { require_inside(in_, in_ + "/link"); }),
            in_ + "/link: is a link to " + (root_ / "in_other/file") +
                ", out of the folder; links are followed within " + in_ + " only: put a copy of the file in its place");
}

// A file of a snapshot is a link to a blob of the same model.
TEST_F(FolderWalks, ASnapshotOfACacheReachesToItsModel) {
  put("cache/models--a/blobs/0123");
  put("cache/models--b/blobs/4567");
  const std::string snapshot = root_ / "cache/models--a/snapshots/main";
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/0123", snapshot + "/config.json");
  fs::create_symlink("../../../models--b/blobs/4567", snapshot + "/other.json");
  EXPECT_EQ(visited(snapshot), FileNames{"config.json"});
  EXPECT_EQ(links_out_of(snapshot, 1), std::vector<fs::path>{snapshot + "/other.json"});
}

}  // namespace
}  // namespace moescope
