// A form for all keys of the run config, in groups, with the problems of validate() beside the fields while typing.
//
// The form edits a draft. A change of a live field of an open run is applied at once.
#pragma once

#include <QWidget>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/setup/preset_list.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"

class QAction;
class QGridLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QScrollArea;
class QVBoxLayout;

namespace moescope {

class FieldEditor;
class GroupHeader;

inline constexpr char kDefaultPreset[] = "small";

class SetupForm : public QWidget {
  Q_OBJECT

 public:
  explicit SetupForm(QWidget* parent = nullptr);

  // "0.5 M parameters, 8.5 MB, 2,000 steps in about 40 s", and the source of each figure.
  using Cost = PresetList::Words;
  const RunConfig& draft() const { return draft_; }
  void setDraft(const RunConfig& config);
  // Sets the config of the open run, against which changes are shown; nullptr: no open run can be changed live.
  void setOpenRun(const RunConfig* config);
  // Sets the functions that describe the cost of the draft and of each preset. showCost() calls the first.
  void setCosts(std::function<Cost(const RunConfig&)> draft_cost, std::function<Cost(const QString&)> preset_cost);
  void showCost();
  void setPurpose(const QString& text);      // purpose of the settings: "run A, in training"
  void followPreset(const QString& preset);  // fills the form, unless it has own settings
  void takeFocus();
  FieldEditor* editor(const std::string& key) const;
  // Opens the field's group and scrolls to the field. Returns false if there is no such field.
  bool showField(const std::string& key);

 signals:
  void closeRequested();
  void startRequested(moescope::RunConfig config);
  void liveChangeRequested(moescope::Setting setting, moescope::ConfigValue value);
  void presetRequested(QString name);
  void openConfigRequested();
  // Requests a twin with another value of this setting; nullopt: the user chooses the setting.
  void compareRequested(std::optional<moescope::Setting> setting);
  void valueTwinRequested(moescope::Setting setting, moescope::ConfigValue value);
  void twinRequested(moescope::RunConfig config);  // requests a twin with the draft as settings

 private:
  struct Row {
    FieldEditor* editor = nullptr;
    QLabel* label = nullptr;
    QLabel* new_run = nullptr;  // mark of a setting that cannot change in training
    bool marked = false;
    QLabel* problem = nullptr;
  };
  struct Group {
    GroupHeader* header = nullptr;
    QWidget* body = nullptr;
    std::vector<std::string> keys;
  };
  QLayout* makeHead();
  QLayout* makeTop();
  QWidget* makeHint();
  QWidget* makeFields();
  QWidget* makeBottom();
  QLayout* makeButtons();
  void addGroup(QVBoxLayout* column, const std::string& title);
  void addRow(QGridLayout* grid, const ConfigField& field);
  void offerTwinsOf(const Row& row);
  void onEdited(const std::string& key);
  void showDerived(const ConfigField& edited);
  void onCommitted(const std::string& key);
  void check();
  void showProblems();
  void markChanges();
  void markNewRuns();
  void choosePreset();
  void drawPictures();
  void showRows();
  void explain(const ConfigField& field);
  bool goesLive(const ConfigField& field) const { return field.live && has_open_run_; }

  RunConfig draft_, open_run_;
  bool has_open_run_ = false;
  std::map<std::string, Row> rows_;
  std::vector<Group> groups_;
  std::vector<ConfigProblem> problems_;
  std::string asked_key_;  // setting that showField() shows even if it cannot matter
  PresetList* presets_ = nullptr;
  QAction* find_ = nullptr;
  QLineEdit* filter_ = nullptr;
  QScrollArea* scroll_ = nullptr;
  QLabel* purpose_ = nullptr;
  QWidget* hint_ = nullptr;
  QLabel *hint_mark_ = nullptr, *explained_ = nullptr, *explanation_ = nullptr;
  QLabel* summary_ = nullptr;
  QLabel* cost_ = nullptr;
  std::function<Cost(const RunConfig&)> cost_of_;
  QPushButton* start_ = nullptr;
  QPushButton* revert_ = nullptr;
  QPushButton* compare_ = nullptr;
};

}  // namespace moescope
