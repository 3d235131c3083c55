// Files and folders of other programs in forms that are not read: their errors name the form and what to do, and never
// offer to train on them as text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/checkpoints/checkpoint_folder.h"
#include "core/files/input_file.h"
#include "core/files/sqlite.h"
#include "core/files/tensors/open_tensors.h"
#include "core/logs/file_kind.h"
#include "core/logs/runs_in_folder.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

class UnreadForms : public testing::Test {
 protected:
  std::string put(const std::string& name, std::string_view bytes) const {
    const std::string path = folder_ / name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string said_of(const std::string& path) { return no_runs_in(path, file_kind(path)); }
  void expect_named(const std::string& path, const std::string& form) const {
    EXPECT_EQ(file_kind(path), FileKind::unread) << path;
    const std::string message = said_of(path);
    EXPECT_TRUE(says(message, path + ": ")) << message;
    EXPECT_TRUE(says(message, form)) << message;
    EXPECT_FALSE(says(message, "train on it as text")) << message;
  }
  TestFolder folder_{"unread_forms"};
};

TEST_F(UnreadForms, FilesAreNamedByTheirFirstBytes) {
  const std::string zeros(64, '\0');
  expect_named(put("tiny.gguf", "GGUF\3\0\0\0"sv), "is a GGUF model of llama.cpp, which is not read");
  expect_named(put("renamed.bin", "GGUF\3\0\0\0"sv), "is a GGUF model of llama.cpp");
  expect_named(put("metrics.parquet", "PAR1" + zeros + "PAR1"), "is a Parquet file, which is not read: in Python, ");
  expect_named(put("metrics.feather", "ARROW1" + zeros), "is an Arrow file");
  expect_named(put("weights.h5", "\x89HDF\r\n\x1a\n" + zeros), "is an HDF5 file");
  expect_named(put("loss.png", "\x89PNG\r\n\x1a\n" + zeros), "is a picture (PNG)");
  expect_named(put("runs.tar", std::string(257, '\0') + "ustar" + zeros), "is a tar archive: unpack it first");
  expect_named(put("old.dat", "\2\0\0\0\x16\0\0\0blk.0.ffn_gate_exps.weight\1\0\0\0"sv),
               "is an importance matrix of llama.cpp in its old format");
  expect_named(put("table.xlsx", "PK\3\4" + std::string(26, '\0') + "[Content_Types].xml"), "is a spreadsheet");
  expect_named(put("1234.zip", "PK\3\4" + std::string(26, '\0') + "messages.json"),
               "is an offline experiment of Comet");
}

TEST_F(UnreadForms, LinesOfNumbersAreNoTextToTrainOn) {
  std::string serving, statements, prose;
  for (int i = 0; i < 10; ++i) {
    const std::string number = std::to_string(i);
    serving += "[12:00:0" + number + " TP0] forward_pass_id=" + number + " balancedness=0." + number + "\n";
    statements += "INSERT INTO metrics VALUES (" + number + ", 'loss', 2." + number + ");\n";
    prose += "In chapter " + number + " the " + std::string(i + 1, 'a') + " of the sea is told again.\n";
  }
  EXPECT_EQ(file_kind(put("serving.log", serving)), FileKind::text_log) << "its names are asked about";
  expect_named(put("dump.sql", statements), "no step by a name that is known");
  expect_named(put("pairs.txt", "[(100, 7.5), (200, 6.5), (300, 5.5)]\n"), "no step by a name that is known");
  expect_named(put("console.log", "wandb: Run summary:\nwandb:   train/loss 2.5\n"), "is what W&B prints");
  EXPECT_EQ(file_kind(put("prose.txt", prose)), FileKind::text);
}

TEST_F(UnreadForms, FilesAreNamedByTheirNames) {
  expect_named(put("backup.swanlab", "{\"model_type\":\"Header\",\"data\":{}}\n"), "is a run of SwanLab");
  expect_named(put("model.onnx", "\x08\x07"), "is an ONNX model");
  expect_named(put("model.ckpt-100.data-00000-of-00002", "abc"), "is a part of a TensorFlow checkpoint");
}

TEST_F(UnreadForms, ADistributedCheckpointIsNamed) {  // its files hold one archive of torch.save after the other
  const std::string part = put("step-1000/__0_0.distcp", "PK\3\4");
  put("step-1000/.metadata", "\x80\2}.");
  expect_named(part,
               "is a distributed checkpoint of PyTorch (DCP), which is not read: python -m "
               "torch.distributed.checkpoint.format_utils dcp_to_torch \"" +
                   (folder_ / "step-1000") + "\" model.pt writes a file that is");
  expect_named(folder_ / "step-1000", "is a distributed checkpoint of PyTorch");
  expect_named(folder_ / "", "holds the folder step-1000, which is a distributed checkpoint");
  EXPECT_TRUE(says(problem_of([&] { open_tensors(part); }), "is a distributed checkpoint"));
  EXPECT_TRUE(says(problem_of([&] { open_tensors(folder_ / "step-1000"); }), "is a distributed checkpoint"));
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder(folder_ / "step-1000"); }), "is a distributed checkpoint"));
}

TEST_F(UnreadForms, ABinaryFileOfUnknownFormIsNoText) {
  expect_named(put("dump.bin", "\1\2\0\0\x99\x12 some words"sv), "is a binary file of no format that MoEScope knows");
  expect_named(put("dump.csv", "\0\0\0\0\0\0\0\0"sv), "is a binary file");
  EXPECT_EQ(file_kind(put("prose.txt", "Once upon a time\t\x1b[1mthere\x1b[0m was\f an expert")), FileKind::text);
  EXPECT_EQ(file_kind(put("latin.txt", "caf\xe9 au lait")), FileKind::text);
}

TEST_F(UnreadForms, ALogWithNulBytesIsStillALog) {  // a file system may leave them after a crash
  std::string log;
  for (int step = 1; step < 40; ++step)
    log +=
        "step: " + std::to_string(step) + "  loss: 3.25  grad_norm: 1.5\n" + (step == 3 ? std::string(90, '\0') : "");
  EXPECT_EQ(file_kind(put("train.log", log)), FileKind::text_log);
}

TEST_F(UnreadForms, DatabasesAreNamedByTheirTables) {
  const auto database = [&](const std::string& name, const std::string& tables) {
    const std::string path = folder_ / name;
    Connection connection(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    connection.execute(tables.c_str());
    return path;
  };
  expect_named(database("study.db", "CREATE TABLE studies (a INT); CREATE TABLE trials (a INT)"),
               "is a study of Optuna");
  expect_named(database("aim.sqlite", "CREATE TABLE run (a INT); CREATE TABLE experiment (a INT)"),
               "is a database of Aim");
  expect_named(database("shop.db", "CREATE TABLE orders (a INT)"),
               "is an SQLite database of another program, which is not read (its tables: orders)");
  EXPECT_EQ(file_kind(database("mlflow.db", "CREATE TABLE runs (a INT); CREATE TABLE metrics (a INT)")),
            FileKind::mlflow_run);
}

TEST_F(UnreadForms, FoldersAreNamedByTheFilesInThem) {
  const auto folder = [&](const std::string& file) { return fs::path(put(file, "{}")).parent_path().string(); };
  expect_named(folder("lora/adapter_config.json"), "merge it into its base model first: in Python, ");
  expect_named(folder("zero/zero_to_fp32.py"), "is a checkpoint of DeepSpeed");
  expect_named(folder("orbax/_CHECKPOINT_METADATA"), "is a checkpoint of Orbax");
  expect_named(folder("bin/pytorch_model-00001-of-00002.bin"), "holds a model as pytorch_model.bin");
  expect_named(folder("aim/run_metadata.sqlite"), "is a repository of Aim");
  folder("swanlog/run-20260101_000000-abc/backup.swanlab");
  expect_named(folder_ / "swanlog", "holds the folder run-20260101_000000-abc, which is a run of SwanLab");
  folder("project/.aim/run_metadata.sqlite");
  expect_named(folder_ / "project", "holds the folder .aim, which is a repository of Aim");
  folder("models--a--b/refs/main");
  fs::create_directories(folder_ / "models--a--b/snapshots");
  expect_named(folder_ / "models--a--b", "is a folder of Hugging Face's cache");
}

TEST_F(UnreadForms, FilesWithoutProseAreNoText) {
  expect_named(put("train.ipynb", R"({"cells": [{"outputs": [{"text": ["step 1 loss 2\n"]}]}]})"),
               "is a Jupyter notebook");
  expect_named(put("people.json", R"([{"name": "x"}])"), "is JSON that is neither a log");
  expect_named(put("people.csv", "name,age\nx,1\n"), "is a table that is neither a log");
  expect_named(put("loss.svg", "<?xml version=\"1.0\"?>\n<svg></svg>"), "is a page or picture");
  expect_named(put("empty.log", ""), "is empty");
  expect_named(put("a.webp", "RIFF\x24\0\0\0WEBPVP8 "sv), "is a picture (WebP)");
}

TEST_F(UnreadForms, AFolderWithoutTextIsNotOfferedForTraining) {
  put("cache/snapshots/abc/notes.bin", "\1\2\0\0"sv);
  fs::create_symlink("../../blobs/abc", folder_ / "cache/snapshots/abc/config.json");
  expect_named(folder_ / "cache", "holds no log, and no text to train on: snapshots/abc/notes.bin");
  EXPECT_TRUE(says(said_of(folder_ / "cache"), "config.json is a link to ../../blobs/abc, which does not exist"));
  put("saved/saved_model.pb", "\x08\1");
  expect_named(folder_ / "saved", "is a model of TensorFlow");
  fs::create_directories(folder_ / "none");
  expect_named(folder_ / "none", "holds no log and no file");
  put("prose/a.txt", "Once upon a time");
  EXPECT_EQ(file_kind(folder_ / "prose"), FileKind::text);
}

TEST_F(UnreadForms, TensorsWithoutARunAreNamed) {
  const std::string empty = put("a.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_TRUE(says(said_of(empty), "holds neither a run nor a tensor")) << said_of(empty);
  const std::string header = R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  const std::string one = put("b.safetensors", length + header + "ab");
  EXPECT_TRUE(says(said_of(one), "holds no run, but 1 tensor: 'w'")) << said_of(one);
}

TEST_F(UnreadForms, AFolderOfRunsIsListedWhateverElseItHolds) {
  put("out/adapter_config.json", "{}");
  put("out/log.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  EXPECT_TRUE(says(said_of(folder_ / "out"), "is a folder of 1 run; open one of them by its name: "));
}

TEST_F(UnreadForms, AnLfsPointerIsNeverReadAsTheFile) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n";
  for (const char* name : {"log.csv", "log.jsonl", "model.safetensors", "counts.npy", "state.pt", "text.txt"}) {
    const std::string path = put(name, pointer);
    EXPECT_EQ(problem_of([&] { file_kind(path); }),
              path + ": is a Git LFS pointer in place of the file; run 'git lfs pull' in its folder");
    EXPECT_TRUE(says(problem_of([&] { read_file(path, 1000, "text"); }), "is a Git LFS pointer"));
  }
  EXPECT_TRUE(says(problem_of([&] { open_tensors(folder_ / "state.pt"); }), "is a Git LFS pointer"));
}

TEST_F(UnreadForms, ALinkToNothingIsNamed) {
  fs::create_symlink("blobs/abc", folder_ / "model.safetensors");
  EXPECT_EQ(problem_of([&] { file_kind(folder_ / "model.safetensors"); }),
            (folder_ / "model.safetensors") + ": is a link to blobs/abc, which does not exist");
}

TEST_F(UnreadForms, ModelsAndTensorsInOtherFormsAreNamed) {
  const std::string gguf = put("model.gguf", "GGUF\3\0\0\0"sv);
  put("bin/config.json", "{}");
  put("bin/pytorch_model.bin", "PK\3\4");
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder(gguf); }), gguf + ": is a GGUF model"));
  EXPECT_TRUE(says(problem_of([&] { open_tensors(gguf); }), gguf + ": is a GGUF model"));
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder(folder_ / "bin"); }), "holds a model as pytorch_model.bin"));
  EXPECT_TRUE(says(problem_of([&] { open_tensors(folder_ / "bin"); }), "holds a model as pytorch_model.bin"));
}

}  // namespace
}  // namespace moescope
