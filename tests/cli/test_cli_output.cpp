// Output of the command line for names, files and links from an untrusted source.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/recording/recording.h"
#include "tests/support/run_command.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Text that would set a terminal's title, change colors, clear the screen, forge an error, and reverse text.
const std::string kHostileText =
    "w\x1b]0;owned\x07\x1b[31m\xc2\x9b"
    "2J\r\nmoescope-cli: error: forged \xe2\x80\xae"
    "end\x7f\x01";

class CliOutput : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_cli_output_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    put("precious", "precious");
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string get(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Ended cli(const std::string& arguments) const {
    return run("cd '" + root_.string() + "' && '" MOESCOPE_CLI "' " + arguments);
  }
  void put_tensors(const std::string& name, const std::vector<std::string>& names, DType dtype = DType::f32) const {
    SafetensorsWriter writer;
    const std::vector<float> values(64, 1.0f);
    for (const std::string& name : names)
      writer.add(name, dtype, {2, 1024 / dtype_bits(dtype)}, std::as_bytes(std::span(values)));
    writer.write(path(name));
  }

 private:
  fs::path root_;
};

void expect_said(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// Expects only printable characters and line ends, without U+202E, which reverses the text after it.
void expect_harmless(const Ended& ended) {
  for (std::size_t i = 0; i < ended.output.size(); ++i) {
    const auto byte = static_cast<unsigned char>(ended.output[i]);
    ASSERT_FALSE((byte < 0x20 && byte != '\n') || byte == 0x7f) << int(byte) << " in " << ended.output;
    ASSERT_FALSE(byte == 0xc2 && static_cast<unsigned char>(ended.output[i + 1]) < 0xa0) << ended.output;
  }
  EXPECT_EQ(ended.output.find("\xe2\x80\xae"), std::string::npos) << ended.output;
}

TEST_F(CliOutput, NamesOfTensorsCannotSteerTheTerminal) {
  put_tensors("evil.safetensors", {kHostileText, "plain"});
  for (const char* options : {"", " --json", " --what-if", " --tensor nosuch"}) {
    const Ended ended = cli(std::string("quantize evil.safetensors --format mxfp8_e4m3 --scale rceil") + options);
    expect_harmless(ended);
    if (std::string(options) != " --tensor nosuch") {
      EXPECT_EQ(ended.status, 0) << ended.output;
      EXPECT_EQ(ended.output.find("\nmoescope-cli: error: forged"), std::string::npos) << ended.output;
    }
  }
  put_tensors("whole.safetensors", {kHostileText}, DType::i32);
  const Ended whole = cli("quantize whole.safetensors --format mxfp8_e4m3 --scale rceil");
  expect_harmless(whole);
  EXPECT_EQ(whole.output.find("\nmoescope-cli: error: moescope-cli: error: forged"), std::string::npos) << whole.output;
  put_tensors(kHostileText + ".safetensors", {"plain"});
  expect_harmless(cli("quantize '" + kHostileText + ".safetensors' --format mxfp8_e4m3 --scale rceil --out '" +
                      kHostileText + "'"));
}

TEST_F(CliOutput, NamesOfRunsAndLogsCannotSteerTheTerminal) {
  const std::string name = "\\u001b]0;owned\\u0007\\u009b2J\\nmoescope-cli: error: forged\\u007f";
  const std::string head =
      "{\"run\": 0, \"name\": \"" + name + "\", \"experts\": 4, \"top_k\": 1, \"moe_layers\": [1]}\n";
  const std::string steps =
      "{\"run\": 0, \"step\": 0, \"routers\": [{\"layer\": 1, \"tokens_per_expert\": [1, 2, 3, 4]}]}\n"
      "{\"run\": 0, \"step\": 1, \"routers\": [{\"layer\": 1, \"tokens_per_expert\": [1, \"\x1b[31m\"]}]}\n";
  put(kHostileText + ".jsonl", head + steps);
  const Ended imported = cli("import '" + kHostileText + ".jsonl' --out run.moescope");
  EXPECT_EQ(imported.status, 0) << imported.output;
  expect_harmless(imported);
  for (const char* command :
       {"reproduce run.moescope", "export run.moescope --to tensorboard -o events", "volumes --recording run.moescope",
        "volumes --recording run.moescope --json", "volumes --model 16B --ranks 4 --routing run.moescope",
        "export run.moescope --to weights -o w"})
    expect_harmless(cli(command));
}

TEST_F(CliOutput, TitlesAndErrorsOfTomlCannotSteerTheTerminal) {
  put("lesson.toml",
      "title = \"\\u001b]0;owned\\u0007\"\nteaches = \"\\u009b2J\"\n[[step]]\ntitle = \"\\u001b[31m\"\n");
  expect_harmless(cli("lesson ./lesson.toml"));
  put("run.toml", "\"\\u001b[31m\" = 1\nname = \"\\u001b]0;x\\u0007\"\n[router]\nscore = \"\\u009b2J\"\n");
  const Ended ended = cli("train --config run.toml --steps 1");
  EXPECT_EQ(ended.status, 2);
  expect_harmless(ended);
  expect_harmless(cli("train --preset nano --set '" + kHostileText + "=1'"));
  expect_harmless(cli("predict --hardware '" + kHostileText + "'"));
  expect_harmless(cli("'" + kHostileText + "'"));
}

TEST_F(CliOutput, NothingIsWrittenThroughALink) {
  put_tensors("t.safetensors", {"plain"});
  const std::string quantize = "quantize t.safetensors --format mxfp8_e4m3 --scale rceil --out ";
  fs::create_symlink(path("precious"), path("q.safetensors.tmp"));
  EXPECT_EQ(cli(quantize + "q.safetensors").status, 0);
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("q.safetensors"))));

  fs::create_symlink(path("precious"), path("link"));
  fs::create_symlink(path("nowhere"), path("dangling"));
  put("log.jsonl", "{\"step\": 0, \"loss\": 1}\n{\"step\": 1}\n{\"step\": \n");
  for (const std::string link : {"link", "dangling"}) {
    for (const std::string& command :
         {quantize + link, "train --preset nano --steps 1 --out " + link,
          "train --preset nano --steps 1 --jsonl " + link, "import log.jsonl --out " + link,
          "import log.jsonl --out made.moescope --bad-lines " + link}) {
      const Ended ended = cli(command + (command.find("quantize") == 0 ? "" : " --overwrite"));
      EXPECT_EQ(ended.status, 2) << command;
      expect_said(ended.output, link + ": is a symbolic link to ");
    }
  }
  EXPECT_EQ(get("precious"), "precious");
  EXPECT_FALSE(fs::exists(path("nowhere")));
}

// If the program starts with a closed stream, a file that it opens must not get the stream's descriptor, because
// messages would be written into the file.
TEST_F(CliOutput, AClosedStreamIsNotReplacedByAFile) {
  const std::string log = "{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,2]]}\n";
  put("log.jsonl", log);
  for (const std::string closed : {"<&-", ">&-", "2>&-"}) {
    const Ended imported = cli("import log.jsonl --overwrite -o r.moescope " + closed + " ; echo \"status $?\"");
    expect_said(imported.output, closed == ">&-" ? "status 1" : "status 0");
    EXPECT_EQ(get("log.jsonl"), log) << closed;
    EXPECT_EQ(RecordingReader(path("r.moescope")).load(0)->count(), 1) << closed;
  }
  expect_said(cli("check log.jsonl <&- >&- 2>&- ; echo \"status $?\"").output, "status 1");
  EXPECT_EQ(get("log.jsonl"), log);
}

TEST_F(CliOutput, JsonLinesGoToAPipeByWayOfALink) {
  const Ended ended = run("bash -c \"'" MOESCOPE_CLI "' train --preset nano --steps 1 --jsonl >(wc -l >'" +
                          path("lines") + "') && wait \\$!\"");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(get("lines"), "2\n");
}

}  // namespace
}  // namespace moescope
