# Pages for a browser as strings in the libraries, so that the program needs no file at run time.

# braid_page(LIBRARY NAMESPACE CONSTANT HTML STYLES… SCRIPTS…): `const char* const CONSTANT` is the HTML with the files
# *.css and *.js in place of @BRAID_PAGE_CSS@ and @BRAID_PAGE_JS@.
function(braid_page library namespace constant html)
  set(BRAID_PAGE_NAMESPACE ${namespace})
  set(BRAID_PAGE_CONSTANT ${constant})
  foreach(file IN LISTS ARGN)
    file(READ ${file} text)
    if(file MATCHES "css$")
      string(APPEND BRAID_PAGE_CSS "${text}")
    else()
      string(APPEND BRAID_PAGE_JS "${text}\n")
    endif()
  endforeach()
  cmake_path(GET html STEM name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${html} ${ARGN})
  configure_file(${html} ${PROJECT_BINARY_DIR}/generated/${name}.html @ONLY)
  file(READ ${PROJECT_BINARY_DIR}/generated/${name}.html BRAID_PAGE)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/page_template.cpp.in ${PROJECT_BINARY_DIR}/generated/${name}_template.cpp @ONLY)
  target_sources(${library} PRIVATE ${PROJECT_BINARY_DIR}/generated/${name}_template.cpp)
endfunction()

set(page ${PROJECT_SOURCE_DIR}/scheduler/show/page)
braid_page(braid_scheduler braid::scheduler kPageTemplate ${page}/plan_page.html ${page}/plan_page.css ${page}/basics.js
           ${page}/curves.js ${page}/common.js ${page}/losses.js ${page}/gantt.js ${page}/graph.js ${page}/memory.js
           ${page}/tables.js ${page}/ready.js)
set(report ${PROJECT_SOURCE_DIR}/train/report/page)
braid_page(braid_train braid kReportTemplate ${report}/report.html ${page}/plan_page.css ${report}/report.css ${page}/basics.js
           ${page}/curves.js ${report}/report.js)
