// Actions on the run in training besides the settings of the live bar: router actions, the mixture of domains, and
// checkpoints to rewind to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/docks/side_dock.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/training/engine/checkpoint_ring.h"

class QComboBox;
class QLabel;
class QPushButton;

namespace moescope {

class FieldEditor;
class MixtureEditor;

class ActionsDock : public SideDock {
  Q_OBJECT

 public:
  explicit ActionsDock(QWidget* parent = nullptr);

  // Shows the settings of the active run; nullptr: no run. Unless `live`, they cannot be changed.
  void showConfig(const RunConfig* config, bool live);
  void showDomains(const std::vector<std::string>& domains);
  void showCheckpoints(const std::vector<KeptCheckpoint>& checkpoints);
  void showProblem(const QString& problem);
  FieldEditor* editor(Setting setting) const { return editors_.at(setting); }
  qint64 chosenCheckpoint() const;  // step of the selected checkpoint; -1: none

 signals:
  void changeRequested(moescope::Setting setting, moescope::ConfigValue value);
  void keepRequested();
  void rewindRequested(qint64 step);
  void branchRequested(qint64 step);

 private:
  QWidget* makeFields();
  QWidget* makeCheckpoints();

  std::map<Setting, FieldEditor*> editors_;
  MixtureEditor* mixture_;
  QComboBox* checkpoints_;
  QPushButton *rewind_, *branch_, *keep_;
  QLabel *words_, *problem_;
  bool live_ = false;
};

}  // namespace moescope
