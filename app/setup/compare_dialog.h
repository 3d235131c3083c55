// Asks in which setting a twin differs from run A, or from a checkpoint of a run. For several twins it takes a list of
// candidates.
#pragma once

#include <QDialog>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QAction;
class QComboBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QMenu;
class QPushButton;
class QSpinBox;
class QVBoxLayout;
class QListWidget;

namespace moescope {

class FieldEditor;

// The list of candidates to compare with run A, up to kMaxCandidates. If they do not all fit beside run A, also asks
// for the number of steps that they train.
class CandidateList : public QWidget {
  Q_OBJECT

 public:
  explicit CandidateList(const RunConfig& first, QWidget* parent = nullptr);

  // Adds a candidate, or replaces the row `instead` by it. Returns why it was refused; empty if it is on the list.
  QString add(const RunConfig& candidate, int instead = -1);
  int chosen() const;  // row of the selected candidate; -1: none

  const std::vector<RunConfig>& candidates() const { return candidates_; }
  std::vector<RunConfig> runs() const;  // run A and the candidates
  void setRoom(int runs);               // number of runs that can train beside run A
  bool inGroups() const { return to_int(candidates_.size()) > room_; }
  int steps() const;  // steps of each group
  // Returns how the candidates train and what is missing for a verdict, in a sentence or two.
  QString words() const;

 signals:
  void changed();

 private:
  QString refusal(const RunConfig& candidate, int instead) const;  // `instead`: row to replace; -1: adds a row
  void remove();
  int rowHeight() const;
  void fill(int chosen);

  const RunConfig first_;
  std::vector<RunConfig> candidates_;
  int room_;
  QLabel* title_;
  QListWidget* list_;
  QPushButton* remove_;
  QWidget* steps_row_;
  QSpinBox* steps_;
};

class CompareDialog : public QDialog {
  Q_OBJECT

 public:
  // `from`: step of a checkpoint from which the twin continues. The twin may then differ in live settings only.
  CompareDialog(const RunConfig& first, Setting setting, QWidget* parent = nullptr,
                std::optional<qint64> from = std::nullopt);

  // Describes the cost of the twin or of the listed candidates: for `steps` steps in groups, or beside run A (0 steps).
  using CostText = std::function<QString(const std::vector<RunConfig>& candidates, std::int64_t steps)>;
  void setCost(CostText text) {
    cost_of_ = std::move(text);
    check();
  }
  // Sets the number of runs that can train beside run A; if there are more candidates, they train in groups.
  void setRoom(int runs);

  // True if twins may differ in a setting. The settings of [data] determine the batches, which all runs share.
  static bool comparable(Setting setting) {
    return !setting.is_in<DataConfig>() && !setting.is_in<TelemetryConfig>() && setting != &RunConfig::name;
  }

 signals:
  void twinRequested(moescope::RunConfig twin);  // requests the twin, or one candidate beside run A
  // Requests that run A and its candidates train in groups, one after the other.
  void groupsRequested(const std::vector<moescope::RunConfig>& runs, qint64 steps);

 private:
  void onKeyChosen();
  void makeSettings();
  QWidget* makeListButtons();
  QMenu* makeMoreMenu();
  QWidget* makeGridRow();
  void showGrid(bool shown);
  void addEveryOtherValue();
  void addPerturbedTwin();
  void addDenseTwins();
  void addGrid();
  void addToChosen();
  void say(const QString& problem);  // shows why a candidate was not put on the list
  void check();
  void showCandidates();
  void growToFit();
  void start();
  RunConfig twin() const { return with(first_); }
  RunConfig with(RunConfig config) const;  // `config` with the value in the editor

  RunConfig first_;
  std::optional<qint64> from_;
  QComboBox* keys_;
  QVBoxLayout* place_;
  FieldEditor* editor_ = nullptr;
  QLabel *present_value_, *problem_, *cost_;
  CostText cost_of_;
  CandidateList* list_ = nullptr;  // nullptr if the twin starts from a checkpoint
  QLineEdit* grid_ = nullptr;
  QSpinBox* seeds_ = nullptr;  // seeds of each point of the grid
  QGridLayout* fields_ = nullptr;
  int grid_row_ = 0;
  QPushButton* add_ = nullptr;
  QAction *add_values_ = nullptr, *add_to_chosen_ = nullptr;
  QPushButton* ok_;
};

}  // namespace moescope
