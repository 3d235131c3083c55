// Stores of MLflow, written here as its file_store.py and dbmodels/models.py define them. MLflow itself is not run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "core/files/sqlite.h"
#include "core/findings/comparison/same_settings.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"
#include "tests/support/problem_of.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class Mlflow : public testing::Test {
 protected:
  Mlflow() : root(fs::temp_directory_path() / ("moescope_mlflow_" + std::to_string(::getpid()))) {}
  ~Mlflow() override { fs::remove_all(root); }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::string folder_of_run() const {
    write("mlruns/0/meta.yaml", "experiment_id: '0'\n");
    write("mlruns/0/abc/meta.yaml", "run_id: abc\n");
    write("mlruns/0/abc/metrics/train_loss", "1732400000000 3.5 0\n1732400002000 3.25 1\n1732400003000 nan 2\n");
    write("mlruns/0/abc/metrics/moe/layer_1/cv", "1732400000000 0.5 0\n1732400002000 0.25 1\n");
    write("mlruns/0/abc/metrics/tokens_per_expert/layer_1/expert_0", "1732400000000 30 0\n1732400002000 60 1\nwhat\n");
    write("mlruns/0/abc/metrics/tokens_per_expert/layer_1/expert_1", "1732400000000 90 0\n1732400002000 60 1\n");
    write("mlruns/0/abc/metrics/gpu/power", "1732400000000 700 0\n");
    write("mlruns/0/abc/params/num_experts", "2");
    write("mlruns/0/abc/tags/mlflow.runName", "brave-shrew-7");
    return (root / "mlruns/0/abc").string();
  }
  // Writes a database with these tables and `rows`, which are SQL statements, and returns its path.
  std::string database_with(const std::string& rows) const {
    fs::create_directories(root);
    const std::string path = (root / "mlflow.db").string();
    fs::remove(path);
    Connection database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    database.execute(
        "CREATE TABLE runs (run_uuid VARCHAR(32), name VARCHAR(250), lifecycle_stage VARCHAR(20), start_time BIGINT);"
        "CREATE TABLE metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT, "
        "is_nan BOOLEAN);"
        "CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32));");
    database.execute(rows.c_str());
    return path;
  }
  fs::path root;
};

TEST_F(Mlflow, FolderOfARunIsReadByItsKeys) {
  const std::string folder = folder_of_run();
  EXPECT_EQ(file_kind(folder), FileKind::mlflow_run);
  const OpenedRuns opened = open_runs({folder}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const History& history = *opened.histories[0];
  EXPECT_EQ(history.info().name, "brave-shrew-7");
  ASSERT_EQ(history.steps(), (StepRange{0, 2}));
  EXPECT_FLOAT_EQ(history.value_at(Metric::ce_loss, kWholeRun, 1), 3.25f);
  EXPECT_DOUBLE_EQ(history.frame_at(1)->wall_s, 2.0);
  EXPECT_EQ(history.frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{30, 90}));
  EXPECT_FLOAT_EQ(history.frame_at(0)->routers[0].cv, 0.5f);
  EXPECT_EQ(history.settings_at_start()->log().at("num_experts"), "2");
  ASSERT_EQ(opened.skipped.size(), 1u);
  EXPECT_NE(opened.skipped[0].bad.text().find("metrics/tokens_per_expert/layer_1/expert_0"), std::string::npos);
  const auto runs = runs_in_folder((root / "mlruns").string());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].path, folder);
}

TEST_F(Mlflow, DatabaseHoldsSeveralRuns) {
  const std::string path = database_with(
      "INSERT INTO runs VALUES ('b', 'second', 'active', 2000), ('a', 'first', 'active', 1000), "
      "('c', 'gone', 'deleted', 500), ('d', 'idle', 'active', 700);"
      "INSERT INTO metrics VALUES ('loss', 2.5, 1000, 'a', 0, 0), ('loss', 0, 3000, 'a', 1, 1), "
      "('lr', 0.125, 3000, 'a', 1, 0), ('loss', 1.5, 9000, 'b', 0, 0), ('loss', 9, 9000, 'c', 0, 0), "
      "('power', 700, 9000, 'd', 0, 0), ('loss', 1, 9000, 'b', -3, 0);"
      "INSERT INTO params VALUES ('top_k', '8', 'b');");
  EXPECT_EQ(file_kind(path), FileKind::mlflow_run);
  const Imported imported = import_mlflow(path);
  ASSERT_EQ(imported.runs.size(), 2u) << "not the deleted one, nor the one without a known key";
  EXPECT_EQ(imported.runs[0]->info().name, "first");
  EXPECT_TRUE(std::isnan(imported.runs[0]->value_at(Metric::ce_loss, kWholeRun, 1)));
  EXPECT_FLOAT_EQ(imported.runs[0]->value_at(Metric::lr, kWholeRun, 1), 0.125f);
  EXPECT_EQ(imported.runs[1]->info().run, 1);
  EXPECT_EQ(imported.runs[1]->settings_at_start()->log().at("top_k"), "8");
  EXPECT_EQ(imported.bad.count(), 1) << imported.bad.text();
}

TEST_F(Mlflow, SaysWhatIsMissing) {
  const auto problem = [](const std::string& path) -> std::string {
    try {
      import_mlflow(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  write("empty/meta.yaml", "run_id: x\n");
  write("empty/metrics/gpu/power", "1 2 3\n");
  EXPECT_NE(problem((root / "empty").string()).find("none of its names is known: gpu/power"), std::string::npos);
  write("text.db", "no database");
  EXPECT_NE(problem((root / "text.db").string()).find("text.db: "), std::string::npos);
}

TEST_F(Mlflow, WhatIsNoNumberIsNoLoss) {
  const std::string path = database_with(
      "INSERT INTO runs VALUES ('a', 'x', 'active', 1);"
      "INSERT INTO metrics VALUES ('loss', 2.5, 1, 'a', 0, 0), ('loss', 'diverged', 2, 'a', 1, 0), "
      "('loss', x'00', 3, 'a', 2, 0), ('loss', NULL, 4, 'a', 3, 0), ('loss', 1, 5, 'a', 'four', 0), "
      "('loss', 1, 'noon', 'a', 5, 0), ('loss', 7, 6, 'a', 6, 0);");
  const Imported imported = import_mlflow(path);
  EXPECT_EQ(imported.bad.count(), 5) << imported.bad.text();
  EXPECT_EQ(imported.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 5), 2.5f);
  EXPECT_EQ(imported.runs.at(0)->steps(), (StepRange{0, 6}));
}

TEST_F(Mlflow, OneOfManyRunsCanBeChosen) {
  std::string rows;
  for (const char* id : {"a", "b", "c", "d", "e"})
    rows += "INSERT INTO runs VALUES ('" + std::string(id) + "', '" + (id[0] > 'c' ? "twin" : id) +
            std::string("name', 'active', 1); INSERT INTO metrics VALUES ('loss', 1, 1, '") + id + "', 0, 0);";
  const std::string path = database_with(rows);
  EXPECT_NE(
      problem_of([&] { open_runs({path}, {}, 4); })
          .find("holds 5 runs; at most 4 can be open side by side. --run NAME chooses one of: aname, bname, cname, "
                "twinname, twinname (e)"),
      std::string::npos);
  for (const char* name : {"twinname (e)", "e"}) {
    ImportOptions options;
    options.only = {name};
    const OpenedRuns opened = open_runs({path}, options, 4);
    ASSERT_EQ(opened.histories.size(), 1u) << name;
    EXPECT_EQ(opened.histories[0]->info().name, "twinname (e)");
  }
}

// Every key has its own file, with the values of all attempts.
TEST_F(Mlflow, ARestartIsSeenAcrossTheFilesOfTheKeys) {
  std::string losses, rates;
  const auto add = [](std::string& file, int time, double value, int step) {
    file += std::to_string(time) + " " + std::to_string(value) + " " + std::to_string(step) + "\n";
  };
  int time = 0;
  for (int step = 0; step < 30; ++step) {
    add(losses, ++time, 5, step);
    add(rates, time, 1, step);
  }
  for (int step = 20; step < 25; ++step) {
    add(losses, ++time, 4, step);
    add(rates, time, 2, step);
  }
  write("run/meta.yaml", "run_id: x\nrun_name: 'named here'\n");
  write("run/metrics/loss", losses);
  write("run/metrics/lr", rates);
  const auto run = import_mlflow((root / "run").string()).runs.at(0);
  EXPECT_EQ(run->info().name, "named here");
  EXPECT_EQ(run->steps(), (StepRange{0, 24}));
  for (const auto& [step, loss, lr] : {std::tuple{19, 5.0f, 1.0f}, {20, 4.0f, 2.0f}, {24, 4.0f, 2.0f}}) {
    EXPECT_EQ(run->values(Metric::ce_loss, kWholeRun, {step, step})[0], loss) << step;
    EXPECT_EQ(run->values(Metric::lr, kWholeRun, {step, step})[0], lr) << step;
  }
}

TEST_F(Mlflow, ErrorsNameTheFile) {
  const std::string path =
      database_with("INSERT INTO runs VALUES ('" + std::string(5000, 'a') + "', 'x', 'active', 1);");
  EXPECT_EQ(problem_of([&] { import_mlflow(path); }), path + ": a run's id has 5000 bytes, expected at most 4096");
}

TEST_F(Mlflow, ASmallDatabaseDoesNotFillTheMemory) {
  const std::string path = database_with(
      "INSERT INTO runs VALUES ('a', 'x', 'active', 1);"
      "INSERT INTO metrics WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000) "
      "SELECT 'tokens_per_expert/layer_1/expert_65535', 1, n, 'a', n, 0 FROM c;");
  EXPECT_NE(problem_of([&] { import_mlflow(path); }).find("more than can be shown"), std::string::npos);
}

TEST_F(Mlflow, UnknownKeysAndValuesOfOneStepAreTold) {
  EXPECT_EQ(import_mlflow(folder_of_run()).remarks.back(), "not shown: gpu/power");
  write("r/meta.yaml", "run_id: r\n");
  write("r/metrics/train_loss", "1 3 0\n2 2 0\n3 1 0\n");  // log_metric() without a step
  const Imported run = import_mlflow((root / "r").string());
  EXPECT_EQ(run.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 0), 1.0f);
  ASSERT_EQ(run.remarks.size(), 1u);
  EXPECT_EQ(run.remarks[0],
            "step 0: \"train_loss\" was logged again (and 1 more such values): the last value of a step is shown");
}

TEST_F(Mlflow, ADatabaseMayHaveAnyName) {
  const std::string path = database_with(
      "INSERT INTO runs VALUES ('a', 'x', 'active', 1); INSERT INTO metrics VALUES ('train_loss', 3, 1, 'a', 0, 0);");
  const fs::path other = root / "tracking.sqlite";
  fs::rename(path, other);
  EXPECT_EQ(file_kind(other.string()), FileKind::mlflow_run);
  EXPECT_EQ(import_mlflow(other.string()).runs.size(), 1u);
}

// A run of unknown origin may have links to any file of the one who opens it.
TEST_F(Mlflow, NoLinkOutOfTheRunIsFollowed) {
  const fs::path run = folder_of_run();
  write("secret", "root:x:0:0");
  write("elsewhere/lr", "secret of a folder");
  fs::create_symlink(root / "secret", run / "params/password");
  fs::create_symlink("../../../../secret", run / "params/relative");
  fs::create_directory_symlink(root / "elsewhere", run / "params/optimizer");
  fs::create_symlink("num_experts", run / "params/experts");
  fs::remove(run / "tags/mlflow.runName");
  write("name", "name of another file");
  fs::create_symlink(root / "name", run / "tags/mlflow.runName");
  const OpenedRuns opened = open_runs({run.string()}, {}, 4);
  const LogSettings settings = opened.histories.at(0)->settings_at_start()->log();
  EXPECT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings.at("num_experts"), settings.at("experts")) << "a link within the folder";
  EXPECT_EQ(opened.histories[0]->info().name, "abc");
  std::string remarks;
  for (const std::string& remark : opened.remarks) remarks += remark + '\n';
  for (const char* link : {"params/password", "params/relative", "params/optimizer", "tags/mlflow.runName"})
    EXPECT_NE(remarks.find(link + std::string(" was not read: it is a link that leads out of the folder")),
              std::string::npos)
        << remarks;
  fs::remove_all(run / "params");
  fs::create_directory_symlink(root / "elsewhere", run / "params");
  EXPECT_TRUE(import_mlflow(run.string()).runs.at(0)->settings_at_start()->log().empty());
  fs::rename(run / "metrics", root / "metrics");
  fs::create_directory_symlink(root / "metrics", run / "metrics");
  EXPECT_THROW(import_mlflow(run.string()), std::runtime_error);
  EXPECT_TRUE(runs_in_folder((root / "mlruns").string()).empty());
}

}  // namespace
}  // namespace moescope
