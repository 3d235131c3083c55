// Shows the start page in the workspaces that need a run while none is open; shows this page and the page of all
// lessons on request.
#pragma once

#include <QObject>

class QAction;
class QMenu;

namespace moescope {

class FileActions;
class FullPage;
class LessonActions;
class LessonsPage;
class RunControl;
class RunSession;
class Selection;
class StartPage;
class WorkspaceTabs;

class FirstSteps : public QObject {
  Q_OBJECT

 public:
  FirstSteps(StartPage* page, LessonsPage* lessons_page, RunSession* session, Selection* selection,
             WorkspaceTabs* workspaces);
  void connectTo(RunControl* control, FileActions* files, LessonActions* lessons);
  QAction* addActionTo(QMenu* menu);

  void offerPage();  // from this call on, shows the start page whenever nothing is open
  // Show a page in place of the workspaces, until a workspace is asked for. showPage() also offers the page from then
  // on.
  void showPage();
  void showLessons();
  StartPage* page() const { return page_; }
  LessonsPage* lessonsPage() const { return lessons_page_; }

 private:
  QList<FullPage*> pages() const;
  bool isEmpty() const;  // no run, no followed file, no lesson
  void connectPages(LessonActions* lessons);
  void ask(FullPage* page);
  void look();
  void showTimeline();
  void showProgress();

  StartPage* page_;
  LessonsPage* lessons_page_;
  RunSession* session_;
  Selection* selection_;
  WorkspaceTabs* workspaces_;
  LessonActions* lessons_ = nullptr;
  bool is_wanted_ = false;
  FullPage* requested_page_ = nullptr;  // the page that was asked for; nullptr: none
};

}  // namespace moescope
