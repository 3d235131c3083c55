// No output replaces a file that is read, whatever its name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/files/output_guard.h"
#include "tests/support/problem_of.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class OutputGuard : public testing::Test {
 protected:
  void put(const std::string& name) const {
    fs::create_directories(fs::path(root_ / name).parent_path());
    std::ofstream(root_ / name) << name;
  }
  // Returns why an output is refused although existing files may be replaced; empty if it is not.
  std::string problem(const std::string& input, OutputFile output) const {
    return problem_of([&] { guard_outputs({root_ / input}, {std::move(output)}, true); });
  }
  std::string problem(const std::string& input, const std::string& output) const {
    return problem(input, OutputFile{"--out", root_ / output});
  }
  const TestFolder root_{"output_guard"};
};

TEST_F(OutputGuard, FilesOfAnInputFolderAreInputs) {
  put("texts/a.txt");
  put("texts/below/b.txt");
  put("other.txt");
  for (const char* file : {"texts/a.txt", "texts/below/b.txt"})
    EXPECT_EQ(problem("texts", file),
              "--out " + (root_ / file) + ": is a file of the input " + (root_ / "texts") + "; choose another name");
  EXPECT_EQ(problem("texts", "texts/new.txt"), "") << "replaces nothing";
  EXPECT_EQ(problem("texts", "other.txt"), "");
  EXPECT_NE(problem("texts", OutputFile{.option = "--jsonl", .path = root_ / "texts/a.txt", .stream = true}), "");
}

// A command must not learn after an hour of work that it cannot write the result.
TEST_F(OutputGuard, TheFolderOfAFileIsThere) {
  EXPECT_EQ(problem("", "missing/new.json"), "--out " + (root_ / "missing/new.json") + ": folder " +
                                                 (root_ / "missing") + ": No such file or directory");
  put("file");
  EXPECT_NE(problem("", "file/new.json").find("Not a directory"), std::string::npos);
  EXPECT_EQ(problem("", OutputFile{.option = "--out", .path = root_ / "missing/model", .files = {"config.json"}}), "")
      << "a folder is made with those above it";
}

TEST_F(OutputGuard, HardLinksAndTargetsOfLinksAreInputs) {
  put("models--m/blobs/0");
  put("models--m/snapshots/r/config.json");
  fs::create_symlink("../../blobs/0", root_ / "models--m/snapshots/r/model.safetensors");
  fs::create_hard_link(root_ / "models--m/snapshots/r/config.json", root_ / "same.json");
  EXPECT_NE(problem("models--m/snapshots/r", "models--m/blobs/0"), "");
  EXPECT_NE(problem("models--m/snapshots/r", "same.json"), "");
  fs::create_symlink("snapshots/r/config.json", root_ / "models--m/link.json");
  EXPECT_NE(problem("models--m/link.json", "same.json"), "") << "an input that is a link";
}

TEST_F(OutputGuard, EveryFileOfAWholeFolderIsGuarded) {
  put("model/model.safetensors");
  put("run.safetensors");
  const OutputFile folder{.option = "--out", .path = root_ / "model", .files = {"config.json", "model.safetensors"}};
  EXPECT_EQ(problem("model/model.safetensors", folder),
            "--out " + (root_ / "model/model.safetensors") + ": is also an input; choose another name");
  EXPECT_EQ(problem("run.safetensors", folder), "");
  EXPECT_EQ(problem_of([&] { guard_outputs({}, {folder}, false); }),
            "--out " + (root_ / "model") +
                ": holds model.safetensors; choose another folder, or give --overwrite to replace it");
}

}  // namespace
}  // namespace moescope
