// The most used live settings of the model in training: each change is a marker on the timeline and can be undone.
#pragma once

#include <map>
#include <string>

#include "app/bars/popover.h"
#include "core/config/run_config.h"

class QLabel;

namespace moescope {

class FieldEditor;

class LivePopover : public Popover {
  Q_OBJECT

 public:
  explicit LivePopover(QWidget* parent = nullptr);

  void showConfig(const RunConfig* config, bool live);  // nullptr: none; not live: off
  void showRun(const QString& letter);                  // the run that is changed; empty: there is only one
  void showProblem(const QString& problem);             // empty: none
  FieldEditor* editor(const std::string& key) const;    // nullptr: it has none

 signals:
  void changeRequested(QString key, moescope::ConfigValue value);
  void twinRequested(QString key, moescope::ConfigValue value);  // a twin of run A with this value
  void compareRequested(QString key);                            // a twin with another value
  void allSettingsRequested();
  void undoRequested();
  void redoRequested();

 protected:
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void addField(const char* key, const QString& label);
  void addFoot();
  void onCommitted(FieldEditor* editor);

  bool live_ = false;
  std::map<std::string, FieldEditor*> editors_;
  std::map<std::string, QLabel*> names_;
  std::map<std::string, QString> tip_of_;  // of each field
  QLabel* problem_ = nullptr;
};

}  // namespace moescope
