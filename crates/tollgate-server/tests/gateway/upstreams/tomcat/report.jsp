<%@ page contentType="application/json; charset=UTF-8" trimDirectiveWhitespaces="true" session="false" %><%!
  // Reports how Tomcat read a request.
  private static String json(String text) {
    if (text == null) return "null";
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\' || c < ' ' || c > '~') out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    return out.append('"').toString();
  }
%><%
  String path = request.getServletPath() + (request.getPathInfo() == null ? "" : request.getPathInfo());
  String route = "other", param = null;
  if (path.equals("/login")) route = "login";
  else if (path.startsWith("/search/")) { route = "search"; param = path.substring(8); }
  else if (path.startsWith("/admin/")) route = "admin";
  String cookie = null;
  if (request.getCookies() != null)
    for (jakarta.servlet.http.Cookie one : request.getCookies())
      if (one.getName().equals("session")) cookie = one.getValue();
%>{"route":<%= json(route) %>,"method":<%= json(request.getMethod()) %>,"header":<%= json(request.getHeader("x-api-key")) %>,"cookie":<%= json(cookie) %>,"query":<%= json(request.getParameter("k")) %>,"param":<%= json(param) %>}
