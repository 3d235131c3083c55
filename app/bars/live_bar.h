// The most used live settings of the model in training: each change is a marker on the timeline and can be undone.
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

  void showConfig(const RunConfig* config, bool live);  // nullptr: none; not live: off, with the reason as tool tip
  void showRun(const QString& letter);                  // the run that is changed; empty: there is only one
  void showProblem(const QString& problem);             // empty: none
  FieldEditor* editor(const std::string& key) const;

 signals:
  void changeRequested(QString key, moescope::ConfigValue value);
  void twinRequested(QString key, moescope::ConfigValue value);  // a twin of run A with this value
  void compareRequested(QString key);                            // a twin with another value

 private:
  void addField(const char* key, const QString& label);
  void onCommitted(FieldEditor* editor);

  bool live_ = false;
  std::map<std::string, FieldEditor*> editors_;
  std::map<std::string, QLabel*> names_;
  std::map<std::string, QString> tip_of_;  // of each field
  QLabel* title_ = nullptr;
  QLabel* problem_;
};

}  // namespace moescope
