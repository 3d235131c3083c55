// Files are written whole or not at all, and never through a link or a file that somebody else placed at their path.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/files/tensors/safetensors.h"
#include "core/files/whole_file.h"
#include "core/logs/log_exports.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class WholeFiles : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_whole_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    put("precious", "precious");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return (root_ / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string get(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  std::string refused(const std::function<void()>& action) const {
    try {
      action();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  void expect_said(const std::string& message, const std::string& part) const {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

 private:
  fs::path root_;
};

TEST_F(WholeFiles, AreThereWholeOrNotAtAll) {
  write_whole_file(path("a"), "first");
  EXPECT_EQ(get("a"), "first");
  {
    WholeFile file(path("a"));
    file.write("second, which is never finished");
    EXPECT_EQ(get("a"), "first");
  }
  EXPECT_EQ(get("a"), "first");
  const std::string large(3'000'001, 'x');
  {
    WholeFile file(path("a"));
    for (std::size_t at = 0; at < large.size(); at += 1000) file.write(std::string_view(large).substr(at, 1000));
    file.write("");
    file.finish();
  }
  EXPECT_EQ(get("a"), large);
  EXPECT_EQ(files(), 2u);  // and no temporary file
}

TEST_F(WholeFiles, NothingLaidBesideIsWrittenThrough) {
  fs::create_symlink(path("precious"), path("out.tmp"));
  put("foreign.tmp", "somebody else's");
  write_whole_file(path("out"), "mine");
  write_whole_file(path("foreign"), "mine");
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_EQ(get("foreign.tmp"), "somebody else's");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("out"))));
}

// Most file systems have files without a name, which are used here; elsewhere the name is one that cannot be guessed.
TEST_F(WholeFiles, AProgramThatIsKilledLeavesNothing) {
  const int unnamed = ::open(path(".").c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (unnamed < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(unnamed);
  const pid_t pid = ::fork();
  if (pid == 0) {
    WholeFile file(path("a"));
    for (int i = 0; i < 100; ++i) file.write(std::string(10000, 'x'));
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 1u);
}

TEST_F(WholeFiles, ALinkIsRefusedAndLeftAlone) {
  fs::create_symlink(path("precious"), path("link"));
  fs::create_symlink(path("nowhere"), path("dangling"));
  for (const char* name : {"link", "dangling"}) {
    const std::string message = refused([&] { WholeFile file(path(name)); });
    expect_said(message,
                path(name) + ": is a symbolic link to " + (name[0] == 'l' ? path("precious") : path("nowhere")));
    expect_said(message, "give the path of that file, or remove the link");
  }
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_FALSE(fs::exists(path("nowhere")));
  EXPECT_EQ(files(), 3u);
}

TEST_F(WholeFiles, FoldersDevicesAndPipesAreRefused) {
  expect_said(refused([&] { WholeFile file(path("")); }), "is a folder");
  expect_said(refused([&] { WholeFile file("/dev/null"); }), "/dev/null: is a device, a pipe or a socket");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_said(refused([&] { WholeFile file(path("pipe")); }), "is a device, a pipe or a socket");
  expect_said(refused([&] { WholeFile file(path("no/such/folder")); }), "cannot be written: No such file or directory");
  expect_said(refused([&] { WholeFile file("/proc/no"); }), "cannot be written");
}

TEST_F(WholeFiles, AFolderOnTheWayMayBeALink) {
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("alias"));
  write_whole_file(path("alias/a"), "text");
  EXPECT_EQ(get("real/a"), "text");
}

TEST_F(WholeFiles, KeepPermissionsOfReplacedFile) {
  put("private", "old");
  fs::permissions(path("private"), fs::perms::owner_read | fs::perms::owner_write);
  write_whole_file(path("private"), "new");
  EXPECT_EQ(fs::status(path("private")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(get("private"), "new");
}

TEST_F(WholeFiles, TheLongestNameThereIsCanBeWritten) {
  const std::string name(255, 'n');
  write_whole_file(path(name), "text");
  EXPECT_EQ(get(name), "text");
}

TEST_F(WholeFiles, GrowingFilesFollowNoLinkToAFile) {
  fs::create_symlink(path("precious"), path("link"));
  fs::create_symlink(path("nowhere"), path("dangling"));
  expect_said(refused([&] { open_growing_file(path("link")); }), "is a symbolic link");
  expect_said(refused([&] { open_growing_file(path("dangling")); }), "is a symbolic link");
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_FALSE(fs::exists(path("nowhere")));
  put("log", "longer than what follows");
  const int fd = open_growing_file(path("log"));
  ASSERT_EQ(write(fd, "new", 3), 3);
  close(fd);
  EXPECT_EQ(get("log"), "new");
  expect_said(refused([&] { open_growing_file(path("no/such/folder")); }), "cannot be written");
}

TEST_F(WholeFiles, GrowingFilesMayBePipesAndDevicesByWayOfALink) {
  fs::create_symlink("/dev/null", path("null"));
  for (const std::string& name : {std::string("/dev/null"), path("null")}) {
    const int fd = open_growing_file(name);
    EXPECT_EQ(write(fd, "x", 1), 1);
    close(fd);
  }
}

TEST_F(WholeFiles, TensorsGoThroughNoLink) {
  SafetensorsWriter tensors;
  const float value = 1;
  tensors.add("a", DType::f32, {1}, std::as_bytes(std::span(&value, 1)));
  fs::create_symlink(path("precious"), path("t.safetensors.tmp"));
  tensors.write(path("t.safetensors"));
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_EQ(SafetensorsFile(path("t.safetensors")).tensors().size(), 1u);
  fs::create_symlink(path("precious"), path("l.safetensors"));
  expect_said(refused([&] { tensors.write(path("l.safetensors")); }), "is a symbolic link");
  EXPECT_EQ(get("precious"), "precious");
}

TEST_F(WholeFiles, ARecordingGoesThroughNoLink) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string link = path(std::string("run.moescope") + suffix);
    fs::create_symlink(path("precious"), link);
    expect_said(refused([&] { RecordingWriter writer(path("run.moescope")); }), link + ": is a symbolic link");
    fs::remove(link);
    fs::create_symlink(path("nowhere"), link);
    expect_said(refused([&] { RecordingWriter writer(path("run.moescope")); }), link + ": is a symbolic link");
    fs::remove(link);
  }
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_FALSE(fs::exists(path("nowhere")));
  put("run.moescope", "");  // an empty file belongs to nobody
  RecordingWriter writer(path("run.moescope"));
  writer.add_run(sample_info({}));
}

TEST_F(WholeFiles, EventsGoThroughNoLink) {
  History history(sample_info({}), 1 << 20);
  history.append(std::make_shared<const TelemetryFrame>());
  fs::create_directory(path("events"));
  fs::create_symlink(path("precious"), path("events/events.out.tfevents.7.moescope"));
  expect_said(refused([&] { export_events(history, path("events"), 7); }), "is a symbolic link");
  EXPECT_EQ(get("precious"), "precious");
}

TEST_F(WholeFiles, TheOrderOfRunsGoesThroughNoLink) {
  const auto link = [&](const std::string& file) {
    fs::create_symlink(path("precious"), fs::path(file).parent_path() / "runs.txt");
  };
  expect_said(refused([&] { write_checkpoint(path("checkpoints"), 7, {{"a", link}}); }), "is a symbolic link");
  EXPECT_EQ(get("precious"), "precious");
}

}  // namespace
}  // namespace moescope
