// No command overwrites a file that it reads, another of its outputs, or an existing file.
#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

class CliOverwrites : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write("run.jsonl", "{\"step\":0,\"loss\":3,\"tokens_per_expert\":[[4,4]]}\n{\"step\":1,\"loss\":2}\n");
    write("text.txt", std::string(4000, 'a'));
    ASSERT_EQ(run({"import", path("run.jsonl"), "-o", path("run.moescope")}).status, 0);
    std::string header = R"({"w":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    write("w.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(128, '\x3f'));
  }
  // Expects that the command refuses with a message that contains `reason`, and that no file has changed.
  void expect_refused(const std::vector<std::string>& command, const std::string& reason) {
    std::map<std::string, std::string> before;
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      if (const std::string name = fs::relative(entry.path(), root_).string(); entry.is_regular_file())
        before[name] = read(name);
    const Result result = run(command);
    EXPECT_EQ(result.status, 2) << command[0] << result.out;
    EXPECT_NE(result.err.find(reason), std::string::npos) << command[0] << ": " << result.err;
    for (const auto& [name, bytes] : before)
      if (name != "stdout" && name != "stderr") {
        EXPECT_EQ(read(name), bytes) << command[0] << " changed " << name;
      }
  }
};

TEST_F(CliOverwrites, AnInputIsNeverAnOutput) {
  const std::string log = path("run.jsonl"), recording = path("run.moescope"), config = path("nano.toml");
  fs::create_hard_link(log, path("same.jsonl"));
  const std::string also_input = "is also an input";
  expect_refused({"import", log, "-o", log, "--overwrite"}, also_input);
  expect_refused({"import", log, "-o", path("x"), "--bad-lines", log, "--overwrite"}, also_input);
  expect_refused({"import", log, "-o", path("same.jsonl"), "--overwrite"}, also_input);
  for (const std::string to : {"jsonl", "trace", "replay", "tensorboard", "html"})
    expect_refused({"export", recording, "--to", to, "-o", recording, "--overwrite"}, also_input);
  expect_refused({"export", recording, "--with", log, "--to", "replay", "-o", log, "--overwrite"}, also_input);
  expect_refused({"quantize", path("w.safetensors"), "--out", path("w.safetensors"), "--overwrite"}, also_input);
  expect_refused({"train", "--config", config, "--steps", "1", "--out", config, "--overwrite"}, also_input);
  expect_refused({"train", "--config", config, "--steps", "1", "--jsonl", config, "--overwrite"}, also_input);
  const std::string text = path("text.txt");
  expect_refused({"train", "--config", config, "--data", text, "--steps", "1", "--jsonl", text, "--overwrite"},
                 also_input);
  expect_refused(
      {"train", "--config", config, "--set", "data.path=" + text, "--steps", "1", "--out", text, "--overwrite"},
      also_input);
  const std::string table = path("text.csv");
  fs::copy_file(text, table);
  expect_refused({"sweep", "--config", config, "--set", "data.path=" + table, "--over", "router.top_k=1,2", "--steps",
                  "1", "--out", path("s.moescope"), "--table", table, "--overwrite"},
                 also_input);
}

TEST_F(CliOverwrites, TwoOutputsAreTwoFiles) {
  const std::string both = path("both.csv");
  expect_refused(
      {"train", "--config", path("nano.toml"), "--compare", "seed=2", "--steps", "1", "--out", both, "--table", both},
      "is also the file of --out");
  expect_refused({"import", path("run.jsonl"), "-o", both, "--bad-lines", both}, "is also the file of --out");
  const std::string same_file = (fs::path(both).parent_path() / "." / "both.csv").string();
  expect_refused({"import", path("run.jsonl"), "-o", both, "--bad-lines", same_file}, "is also the file of --out");
  const fs::path before = fs::current_path();
  fs::current_path(fs::path(both).parent_path());
  expect_refused({"import", path("run.jsonl"), "-o", "new", "--bad-lines", "./new"}, "is also the file of --out");
  fs::current_path(before);
  const std::string config = path("nano.toml"), wal = "SQLite uses";
  expect_refused({"train", "--config", config, "--steps", "1", "--out", both, "--jsonl", both + "-wal"}, wal);
  expect_refused({"import", path("run.jsonl"), "-o", both, "--bad-lines", both + "-journal"}, wal);
  expect_refused({"export", path("run.moescope"), "--to", "jsonl", "-o", path("run.moescope-shm")},
                 "a name that SQLite uses");
  // These names are refused even if the command does not read the recording beside them.
  const std::string wal_file = path("run.moescope-wal");
  expect_refused({"train", "--config", config, "--steps", "1", "--out", wal_file, "--overwrite"}, wal);
  expect_refused({"train", "--config", config, "--steps", "1", "--jsonl", wal_file}, wal);
  expect_refused({"import", path("run.jsonl"), "-o", wal_file}, wal);
  expect_refused({"quantize", path("w.safetensors"), "--out", wal_file}, wal);
}

TEST_F(CliOverwrites, AFileThatIsThereIsReplacedOnlyWithOverwrite) {
  write("there", "mine");
  const std::string existing = path("there"), recording = path("run.moescope");
  for (const std::string to : {"jsonl", "trace", "replay", "html"})
    expect_refused({"export", recording, "--to", to, "-o", existing}, "give --overwrite");
  expect_refused({"export", recording, "--to", "tensorboard", "-o", existing}, "is a file, expected a folder");
  expect_refused({"import", path("run.jsonl"), "-o", path("new"), "--bad-lines", existing}, "give --overwrite");
  expect_refused({"quantize", path("w.safetensors"), "--out", existing}, "give --overwrite");
  EXPECT_EQ(run({"export", recording, "--to", "jsonl", "-o", existing, "--overwrite"}).status, 0);
  EXPECT_NE(read("there"), "mine");
  EXPECT_EQ(run({"quantize", path("w.safetensors"), "--out", existing, "--overwrite"}).status, 0);
}

TEST_F(CliOverwrites, AFileOfAnInputFolderIsNeverAnOutput) {
  fs::create_directories(path("texts/below"));
  write("texts/a.txt", std::string(4000, 'a'));
  write("texts/below/b.txt", std::string(4000, 'b'));
  fs::create_hard_link(path("texts/a.txt"), path("same.txt"));
  const std::string config = path("nano.toml"), texts = path("texts"), input = "is a file of the input " + texts;
  for (const std::string& file : {path("texts/a.txt"), path("texts/below/b.txt"), path("same.txt")}) {
    expect_refused({"train", "--config", config, "--data", texts, "--steps", "1", "--jsonl", file, "--overwrite"},
                   input);
    expect_refused({"train", "--config", config, "--data", texts, "--steps", "1", "--out", file, "--overwrite"}, input);
  }
  write("base.toml", read("nano.toml").replace(read("nano.toml").find("[data]"), 6, "[data]\npath = '" + texts + "'"));
  fs::copy_file(path("texts/a.txt"), path("texts/t.csv"));
  expect_refused({"sweep", "--config", path("base.toml"), "--over", "router.top_k=1,2", "--steps", "1", "--out",
                  path("s.moescope"), "--table", path("texts/t.csv"), "--overwrite"},
                 input);
  fs::rename(path("texts/t.csv"), path("texts/s-1.moescope"));
  expect_refused({"sweep", "--config", path("base.toml"), "--over", "router.top_k=1,2", "--steps", "1", "--out",
                  path("texts/s.moescope"), "--overwrite"},
                 input);
  ASSERT_EQ(run({"train", "--config", path("base.toml"), "--steps", "1", "--checkpoint", path("kept")}).status, 0);
  expect_refused({"train", "--resume", path("kept"), "--steps", "2", "--jsonl", path("texts/a.txt"), "--overwrite"},
                 input);
}

TEST_F(CliOverwrites, AFileOfACheckpointOrOfALogFolderIsNeverAnOutput) {
  fs::create_directories(path("cache/blobs"));
  fs::create_directories(path("cache/snapshots/r"));
  fs::rename(path("w.safetensors"), path("cache/blobs/0"));
  fs::create_symlink("../../blobs/0", path("cache/snapshots/r/model.safetensors"));
  fs::create_directories(path("cache/snapshots/r"));
  write("cache/snapshots/r/config.json", "{}");
  const std::string model = path("cache/snapshots/r");
  for (const std::string& file : {path("cache/blobs/0"), model + "/config.json"}) {
    expect_refused({"quantize", model, "--out", file, "--overwrite"}, "input");
    expect_refused({"quantize", model + "/model.safetensors", "--out", file, "--overwrite"}, "is also an input");
    expect_refused({"run", model, "--text", path("text.txt"), "--out", file, "--overwrite"}, "is a file of the input");
  }
  ASSERT_EQ(run({"export", path("run.moescope"), "--to", "tensorboard", "-o", path("logs")}).status, 0);
  std::string events;
  for (const auto& entry : fs::recursive_directory_iterator(path("logs")))
    if (entry.is_regular_file()) events = entry.path().string();
  expect_refused({"import", path("logs"), "-o", events, "--overwrite"}, "is a file of the input");
  expect_refused({"export", events, "--to", "tensorboard", "-o", path("logs"), "--overwrite"}, "is also an input");
  expect_refused({"export", path("logs"), "--to", "replay", "-o", events, "--overwrite"}, "is a file of the input");
  expect_refused({"export", path("logs"), "--to", "html", "-o", events, "--overwrite"}, "is a file of the input");
}

// A recording may have a name that an exported file of events has, too.
TEST_F(CliOverwrites, ARecordingIsNoEarlierExport) {
  fs::create_directories(path("logs/run"));
  fs::copy_file(path("run.moescope"), path("logs/run/run.moescope"));
  const std::string bytes = read("logs/run/run.moescope");
  EXPECT_EQ(
      run({"export", path("logs/run/run.moescope"), "--to", "tensorboard", "-o", path("logs"), "--overwrite"}).status,
      0);
  EXPECT_EQ(read("logs/run/run.moescope"), bytes);
}

}  // namespace
}  // namespace moescope
