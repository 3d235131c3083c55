// Chooses in what a twin differs from run A, or from a run's checkpoint; or several twins of run A, as a list of
// candidates.
#pragma once

#include <QDialog>
#include <functional>
#include <optional>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;
class QVBoxLayout;

namespace moescope {

class CandidateList;
class FieldEditor;

class CompareDialog : public QDialog {
  Q_OBJECT

 public:
  // With `from`, the step of a checkpoint, the twin continues from there: it can differ in live settings only, or in
  // none.
  CompareDialog(const RunConfig& first, Setting setting, QWidget* parent = nullptr,
                std::optional<qint64> from = std::nullopt);

  // What the twin will cost, in words; shown under the choice.
  void setCost(std::function<QString(const RunConfig&)> text);

  // The same of the candidates on the list, for so many steps in groups, or beside run A (0).
  void setCandidatesCost(std::function<QString(const std::vector<RunConfig>& candidates, std::int64_t steps)> text);
  // Runs that can train beside run A at once; more train in groups.
  void setRoom(int runs);

  // Settings that twins may differ in: those of [data] are the batches, which all runs share.
  static bool comparable(Setting setting);

 signals:
  void twinRequested(moescope::RunConfig twin);
  void candidatesRequested(const std::vector<moescope::RunConfig>& candidates);            // beside run A
  void groupsRequested(const std::vector<moescope::RunConfig>& candidates, qint64 steps);  // one after the other

 private:
  void onKeyChosen();
  QWidget* makeListButtons();
  QWidget* makeGridRow();
  void addEveryOtherValue();
  void addPerturbedTwin();
  void addDenseTwins();
  void addGrid();
  void addToChosen();
  void say(const QString& problem);  // why something was not put on the list
  void check();
  void showCandidates();
  void growToFit();
  void start();
  RunConfig twin() const;
  RunConfig with(RunConfig config) const;  // the value in the editor

  RunConfig first_;
  std::optional<qint64> from_;
  QComboBox* keys_;
  QVBoxLayout* place_;
  FieldEditor* editor_ = nullptr;
  QLabel *now_, *problem_, *cost_;
  std::function<QString(const RunConfig&)> cost_of_;
  std::function<QString(const std::vector<RunConfig>&, std::int64_t)> cost_of_all_;
  CandidateList* list_ = nullptr;  // none for a checkpoint's twin
  QLineEdit* grid_ = nullptr;
  QSpinBox* seeds_ = nullptr;  // of each point of the grid
  QPushButton *add_ = nullptr, *add_values_ = nullptr, *add_to_chosen_ = nullptr;
  QPushButton* ok_;
};

}  // namespace moescope
