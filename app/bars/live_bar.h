// The settings that act on the running model, within reach: each change is a marker on the timeline and can be undone.
#pragma once

#include <QToolBar>
#include <map>
#include <string>

#include "core/config/run_config.h"

class QLabel;

namespace moescope {

class FieldEditor;

class LiveBar : public QToolBar {
  Q_OBJECT

 public:
  explicit LiveBar(QWidget* parent = nullptr);

  void showConfig(const RunConfig* config, bool live);  // nullptr: none; not live: to be read only
  void showRun(const QString& letter);                  // which run is meant, empty: there is only one
  void showProblem(const QString& problem);             // empty: none
  FieldEditor* editor(const std::string& key) const;

 signals:
  void changeRequested(QString key, moescope::ConfigValue value);
  void twinRequested(QString key, moescope::ConfigValue value);  // beside run A, with this value instead
  void compareRequested(QString key);                            // with another

 private:
  void addField(const char* key, const QString& label);
  void onCommitted(FieldEditor* editor);

  bool live_ = false;
  std::map<std::string, FieldEditor*> editors_;
  QLabel* title_ = nullptr;
  QLabel* problem_;
};

}  // namespace moescope
