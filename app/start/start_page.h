// The first page: one row for each way to begin (a lesson, a preset, a comparison, a log, a recording, a checkpoint),
// and all lessons.
#pragma once

#include "app/start/full_page.h"

class QMenu;

namespace moescope {

class PresetList;
class LessonList;
class RunCosts;
struct LessonProgress;

class StartPage : public FullPage {
  Q_OBJECT

 public:
  explicit StartPage(QWidget* parent = nullptr);

  void setRecentFiles(QMenu* menu) { recent_->setMenu(menu); }
  void setCosts(const RunCosts* costs);  // the page shows the costs of presets
  void showProgress(const LessonProgress& progress);
  void setBack(const QString& text) override;
  using FullPage::setHeading;

 signals:
  void lessonRequested(QString name);
  void lessonsRequested();  // the page of all lessons
  void logRequested();
  void recordingRequested();
  void checkpointRequested();
  void compareRequested();
  void trainRequested(QString preset);
  void setupRequested(const QString& preset);
  void sampleRequested(QString name);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  QBoxLayout* addRow(const QString& name, QWidget* content, QPushButton* button);
  void addLesson();
  void addPreset();
  void addFiles();
  void showCost();

  PresetList* presets_;
  QLabel *cost_, *next_about_, *comparison_;
  QPushButton* next_;
  QToolButton* recent_;
  LessonList* lessons_;
  QString next_lesson_;
  const RunCosts* costs_ = nullptr;
};

}  // namespace moescope
