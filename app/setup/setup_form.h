// All keys of the run config in groups, with the problems of validate() shown beside the fields while typing.
//
// The form edits a draft. A change of a live field of an open run is applied at once.
#pragma once

#include <QWidget>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/config/run_config.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QLineEdit;
class QPushButton;
class QScrollArea;
class QVBoxLayout;

namespace moescope {

class FieldEditor;

class SetupForm : public QWidget {
  Q_OBJECT

 public:
  explicit SetupForm(QWidget* parent = nullptr);

  const RunConfig& draft() const { return draft_; }
  void setDraft(const RunConfig& config);
  // The config of the open run, which decides what "changed" means; nullptr: no run that could be changed live.
  void setOpenRun(const RunConfig* config);
  // What a run of some settings will cost, in words for the draft; shown anew by showCost().
  void setCost(std::function<QString(const RunConfig&)> text);
  void showCost();
  void setPurpose(const QString& text);  // what the settings are for, on top; empty: those of the open run
  FieldEditor* editor(const std::string& key) const;
  bool showField(const std::string& key);  // opens its group and scrolls to it; false: there is no such field
  QSize sizeHint() const override { return {300, 600}; }

 signals:
  void startRequested(moescope::RunConfig config);
  void liveChangeRequested(QString key, moescope::ConfigValue value);
  void presetRequested(QString name);
  void openConfigRequested();
  void compareRequested(QString key);  // with another value of this setting
  void valueTwinRequested(QString key, moescope::ConfigValue value);
  void twinRequested(moescope::RunConfig config);  // with the draft

 private:
  struct Row {
    FieldEditor* editor = nullptr;
    QLabel* label = nullptr;
    QLabel* unit = nullptr;
    QLabel* problem = nullptr;
  };
  struct Group {
    QWidget* header = nullptr;
    QWidget* body = nullptr;
    std::vector<std::string> keys;
  };
  QWidget* makeTop();
  void comparePresets();
  QWidget* makeFields();
  QWidget* makeBottom();
  void addGroup(QVBoxLayout* column, const std::string& title);
  void addRow(QGridLayout* grid, const ConfigField& field);
  void offerTwinsOf(const Row& row);
  void onEdited(const std::string& key);
  void showDerived(const ConfigField& edited);
  void onCommitted(const std::string& key);
  void check();
  void offerUsed(const RunConfig& shown);  // the settings that it reads
  void showProblems();
  void markChanges();
  void filter(const QString& text);
  void explain(const ConfigField& field);
  bool goesLive(const ConfigField& field) const { return field.live && has_open_run_; }

  RunConfig draft_, open_run_;
  bool has_open_run_ = false;
  std::map<std::string, Row> rows_;
  std::vector<Group> groups_;
  std::vector<ConfigProblem> problems_;
  QComboBox* presets_ = nullptr;
  QLineEdit* filter_ = nullptr;
  QScrollArea* scroll_ = nullptr;
  QLabel* purpose_ = nullptr;
  QLabel* explanation_ = nullptr;
  QLabel* summary_ = nullptr;
  QLabel* cost_ = nullptr;
  std::function<QString(const RunConfig&)> cost_of_;
  QPushButton* start_ = nullptr;
  QPushButton* revert_ = nullptr;
  QPushButton* compare_ = nullptr;
};

}  // namespace moescope
