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
  // Expects that the command refuses with a message that contains `why`, and that no file has changed.
  void expect_refused(const std::vector<std::string>& command, const std::string& why) {
    std::map<std::string, std::string> before;
    for (const std::string& name : files())
      if (fs::is_regular_file(path(name))) before[name] = read(name);
    const Result result = run(command);
    EXPECT_EQ(result.status, 2) << command[0] << result.out;
    EXPECT_NE(result.err.find(why), std::string::npos) << command[0] << ": " << result.err;
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
  const std::string same = (fs::path(both).parent_path() / "." / "both.csv").string();
  expect_refused({"import", path("run.jsonl"), "-o", both, "--bad-lines", same}, "is also the file of --out");
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
  const std::string beside = path("run.moescope-wal");
  expect_refused({"train", "--config", config, "--steps", "1", "--out", beside, "--overwrite"}, wal);
  expect_refused({"train", "--config", config, "--steps", "1", "--jsonl", beside}, wal);
  expect_refused({"import", path("run.jsonl"), "-o", beside}, wal);
  expect_refused({"quantize", path("w.safetensors"), "--out", beside}, wal);
}

TEST_F(CliOverwrites, AFileThatIsThereIsReplacedOnlyWithOverwrite) {
  write("there", "mine");
  const std::string there = path("there"), recording = path("run.moescope");
  for (const std::string to : {"jsonl", "trace", "replay", "html"})
    expect_refused({"export", recording, "--to", to, "-o", there}, "give --overwrite");
  expect_refused({"export", recording, "--to", "tensorboard", "-o", there}, "is a file, expected a folder");
  expect_refused({"import", path("run.jsonl"), "-o", path("new"), "--bad-lines", there}, "give --overwrite");
  expect_refused({"quantize", path("w.safetensors"), "--out", there}, "give --overwrite");
  EXPECT_EQ(run({"export", recording, "--to", "jsonl", "-o", there, "--overwrite"}).status, 0);
  EXPECT_NE(read("there"), "mine");
  EXPECT_EQ(run({"quantize", path("w.safetensors"), "--out", there, "--overwrite"}).status, 0);
}

}  // namespace
}  // namespace moescope
