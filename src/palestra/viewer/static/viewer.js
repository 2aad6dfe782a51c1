"use strict";
(() => {
  // node_modules/preact/dist/preact.mjs
  var n;
  var t;
  var r;
  var u;
  var i;
  var f;
  var o;
  var e;
  var l;
  var c;
  var a;
  var s;
  var h = /* @__PURE__ */ Symbol.for("pv");
  var p = {};
  var y = [];
  var v = /^m(i|n|o|s|text|space)$/;
  var w = Array.isArray;
  var d = y.slice;
  var _ = Object.assign;
  function g(n2) {
    n2 && n2.parentNode && n2.remove();
  }
  function m(r3, u3, i3, f4, o4) {
    var e3 = { type: r3, props: u3, key: i3, ref: f4, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: o4 || ++t, __i: -1, __u: 0 };
    return !o4 && n.vnode && n.vnode(e3), e3;
  }
  function $(n2) {
    return n2.children;
  }
  function x(n2, t3) {
    this.props = n2, this.context = t3, this.__g = 0;
  }
  function S(n2, t3) {
    if (null == t3) return n2.__ && S(n2.__, n2.__i + 1);
    for (var r3; t3 < n2.__k.length; t3++) if ((r3 = n2.__k[t3]) && r3.__e) return r3.__e;
    return "function" != typeof n2.type || n2.props.__P ? null : S(n2);
  }
  function C(t3) {
    var r3, u3 = t3.__v, i3 = u3.__e, f4 = [], o4 = [], e3 = t3.__P;
    e3 && ((r3 = _({ constructor: h }, u3)).__v = u3.__v + 1, n.vnode && n.vnode(r3), z(e3, r3, u3, t3.__n, e3.namespaceURI, 32 & u3.__u ? [i3] : null, f4, i3 || S(u3), 32 & u3.__u, o4), r3.__v = u3.__v, r3.__.__k[r3.__i] = r3, E(f4, r3, o4), u3.__ = u3.__e = null, r3.__e != i3 && j(r3));
  }
  function j(n2) {
    if ((n2 = n2.__) && n2.__c && !n2.props.__P) return n2.__e = null, n2.__k.some(function(t3) {
      return t3 && (n2.__e = t3.__e);
    }), j(n2);
  }
  function L(t3) {
    (8 & t3.__g || (t3.__g |= 8, u.push(t3), f++)) && i == n.debounceRendering || ((i = n.debounceRendering) || queueMicrotask)(H);
  }
  function H() {
    try {
      for (var n2, t3 = 1; u.length; ) u.length > t3 && u.sort(o), n2 = u.shift(), t3 = u.length, 8 & n2.__g && C(n2);
    } finally {
      (f = u.length) && (i || queueMicrotask)(H);
    }
  }
  function I(n2, t3, r3, u3, i3, f4, o4, e3, l3, c3, a4) {
    var s3, h3, v3, w3, d3, _3, g3 = u3.__k || y, k2 = t3.length;
    for (l3 = q(r3, t3, g3, l3, k2), s3 = 0; s3 < k2; s3++) null != (v3 = r3.__k[s3]) && (h3 = ~v3.__i && g3[v3.__i] || p, v3.__i = s3, _3 = z(n2, v3, h3, i3, f4, o4, e3, l3, c3, a4), w3 = v3.__e, (h3.ref != v3.ref || 8 & h3.__u) && (h3.ref && G(h3.ref, null, v3, h3), v3.ref && a4.push(v3.ref, v3.__c || w3, v3)), d3 = d3 || w3, 4 & v3.__u ? (l3 = A(v3, l3, n2, !h3.__v), h3.__e && (h3.__e = null)) : "function" == typeof v3.type && void 0 !== _3 ? l3 = _3 : w3 && (l3 = w3.nextSibling), v3.__u &= -21);
    return r3.__e = d3, l3;
  }
  function q(n2, t3, r3, u3, i3) {
    var f4, o4, e3, l3, c3, a4, s3, p3, y3, v3 = r3.length, d3 = v3, _3 = 0, g3 = 0, k2 = n2.__k = Array(i3);
    for (f4 = 0; f4 < i3; f4++) null != (o4 = t3[f4]) && "boolean" != typeof o4 && "function" != typeof o4 ? ("object" != typeof o4 || o4.constructor === String ? o4 = k2[f4] = m(null, o4) : w(o4) ? o4 = k2[f4] = m($, { children: o4 }) : o4.constructor === h && o4.__b ? o4 = k2[f4] = m(o4.type, o4.props, o4.key, o4.ref, o4.__v) : k2[f4] = o4, l3 = f4 + _3, o4.__ = n2, o4.__b = n2.__b + 1, e3 = null, ~(c3 = o4.__i = P(o4, r3, l3, d3)) && (d3--, (e3 = r3[c3]) && (e3.__u |= 2)), e3 && e3.__v ? (o4.__u |= 16, c3 == l3 - 1 ? _3-- : c3 == l3 + 1 ? _3++ : c3 != l3 && (c3 > l3 ? _3-- : _3++, g3 = 1)) : (~c3 || (i3 > v3 ? _3-- : i3 < v3 && _3++), "function" != typeof o4.type && (o4.__u |= 4))) : k2[f4] = null;
    if (g3) {
      for (a4 = [], s3 = [], f4 = 0; f4 < i3; f4++) if ((o4 = k2[f4]) && 16 & o4.__u) {
        for (_3 = 0, p3 = a4.length; _3 < p3; ) a4[y3 = _3 + p3 >> 1] < o4.__i ? _3 = y3 + 1 : p3 = y3;
        a4[_3] = o4.__i, s3[f4] = _3 + 1;
      }
      for (_3 = a4.length; f4--; ) s3[f4] && (s3[f4] == _3 ? _3-- : k2[f4].__u |= 4);
    }
    if (d3) for (f4 = 0; f4 < v3; f4++) !(e3 = r3[f4]) || 2 & e3.__u || (e3.__e == u3 && (u3 = S(e3)), J(e3, e3));
    return u3;
  }
  function A(n2, t3, r3, u3) {
    var i3, f4, o4, e3;
    if ("function" == typeof n2.type) {
      if (n2.props.__P) return t3;
      if (i3 = n2.__k) for (f4 = 0; f4 < i3.length; f4++) i3[f4] && (i3[f4].__ = n2, t3 = A(i3[f4], t3, r3, false));
      return t3;
    }
    for (t3 && !t3.parentNode && (t3 = S(n2)) && !t3.parentNode && (t3 = null), o4 = n2.__e, e3 = t3; e3 && 8 == e3.nodeType; ) e3 = e3.nextSibling;
    for (o4 != e3 && (!u3 && r3.moveBefore && o4.parentNode ? r3.moveBefore(o4, t3) : r3.insertBefore(o4, t3 || null)), t3 = o4; (t3 = t3 && t3.nextSibling) && 8 == t3.nodeType && !t3.data.startsWith("$s"); ) ;
    return t3;
  }
  function P(n2, t3, r3, u3) {
    var i3, f4 = n2.key, o4 = n2.type, e3 = t3[r3], l3 = e3 && !(2 & e3.__u);
    if (null === e3 && null == f4 || l3 && f4 == e3.key && o4 == e3.type) return r3;
    if (u3 > (l3 ? 1 : 0)) {
      for (i3 = r3 - 1; i3 >= 0; i3--) if ((e3 = t3[i3]) && !(2 & e3.__u) && f4 == e3.key && o4 == e3.type) return i3;
      for (i3 = r3 + 1; i3 < t3.length; i3++) if ((e3 = t3[i3]) && !(2 & e3.__u) && f4 == e3.key && o4 == e3.type) return i3;
    }
    return -1;
  }
  function T(n2, t3, r3) {
    null == r3 && (r3 = ""), "-" == t3[0] ? n2.setProperty(t3, r3) : n2[t3] = r3;
  }
  function N(n2, t3, r3, u3, i3) {
    var f4, o4;
    if ("style" == t3) if ("string" == typeof r3) n2.style.cssText = r3;
    else {
      if ("string" == typeof u3 && (n2.style.cssText = u3 = ""), u3) for (t3 in u3) r3 && t3 in r3 || T(n2.style, t3);
      if (r3) for (t3 in r3) u3 && r3[t3] == u3[t3] || T(n2.style, t3, r3[t3]);
    }
    else if ("o" == t3[0] && "n" == t3[1]) "function" != typeof r3 && (r3 = null), "function" != typeof u3 && (u3 = null), (n2.__e || (n2.__e = {}))[t3] = r3, r3 && u3 || (o4 = a[t3] || (a[t3] = V(t3)), (n2.__a || (n2.__a = {}))[t3] = c, f4 = t3 != (t3 = t3.replace(l, "$1")), (t3 = t3.slice(2))[0] < "a" && (t3 = t3.toLowerCase()), r3 ? n2.addEventListener(t3, o4, f4) : n2.removeEventListener(t3, o4, f4));
    else {
      if ("http://www.w3.org/2000/svg" == i3) t3 = t3.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
      else if ("width" != t3 && "height" != t3 && "href" != t3 && "list" != t3 && "form" != t3 && "tabIndex" != t3 && "download" != t3 && "rowSpan" != t3 && "colSpan" != t3 && "role" != t3 && "popover" != t3 && t3 in n2) try {
        return void (n2[t3] = null == r3 ? "" : r3);
      } catch (n3) {
      }
      if ("function" == typeof r3) return;
      null == r3 || false === r3 && "-" != t3[4] ? n2.removeAttribute(t3) : n2.setAttribute(t3, "popover" == t3 && 1 == r3 ? "" : r3);
    }
  }
  function V(t3) {
    return function(r3) {
      var u3 = this.__e;
      if (u3) {
        if (u3 = u3[t3], null == r3[e]) r3[e] = c++;
        else if (r3[e] < this.__a[t3]) return;
        return u3(n.event ? n.event(r3) : r3);
      }
    };
  }
  function z(t3, r3, u3, i3, f4, o4, e3, l3, c3, a4) {
    var s3, p3, v3, d3, k2, b2, m3, M, C3, j2, L2, H2, q2, A3, O, P2, T3, N2, V2 = r3.type;
    if (r3.constructor !== h) return null;
    128 & u3.__u && (c3 = 32 & u3.__u, s3 = u3.__c.__z) && (r3.__u |= c3, p3 = o4 = [], 8 == s3.nodeType ? l3 = B(s3, o4) : o4.push(s3), l3 = o4[0] || l3), (s3 = n.__b) && s3(r3);
    n: if ("function" == typeof V2) {
      v3 = e3.length;
      try {
        if (M = r3.props, C3 = (s3 = V2.prototype) && s3.render, j2 = (s3 = V2.contextType) && i3[s3.__c], L2 = s3 ? j2 ? j2.props.value : s3.__ : i3, (d3 = u3.__c) ? (r3.__c = d3, 2 & d3.__g && (d3.__g |= 1)) : (C3 ? r3.__c = d3 = new V2(M, L2) : (r3.__c = d3 = new x(M, L2), d3.constructor = V2, d3.render = K), j2 && j2.sub(d3), d3.state || (d3.state = {}), d3.__n = i3, d3.__g |= 8, d3.__h = [], d3.__k = []), C3 && (d3.__s || (d3.__s = d3.state), V2.getDerivedStateFromProps && (d3.__s == d3.state && (d3.__s = _({}, d3.__s)), _(d3.__s, V2.getDerivedStateFromProps(M, d3.__s)))), k2 = d3.props, b2 = d3.state, d3.__v = r3, u3.__c) {
          if (M !== k2 && C3 && !V2.getDerivedStateFromProps && d3.componentWillReceiveProps && d3.componentWillReceiveProps(M, L2), r3.__v == u3.__v && !(8 & d3.__g) || !(4 & d3.__g) && d3.shouldComponentUpdate && false === d3.shouldComponentUpdate(M, d3.__s, L2)) {
            r3.__v != u3.__v && (d3.props = M, d3.state = d3.__s, d3.__g &= -9), r3.__e = u3.__e, r3.__k = u3.__k, r3.__k.some(function(n2) {
              n2 && (n2.__ = r3);
            }), y.push.apply(d3.__h, d3.__k), d3.__k = [], d3.__h.length && e3.push(d3), l3 = S(u3);
            break n;
          }
          d3.componentWillUpdate && d3.componentWillUpdate(M, d3.__s, L2), C3 && d3.componentDidUpdate && d3.__h.push(function() {
            d3.componentDidUpdate(k2, b2, m3);
          });
        } else C3 && !V2.getDerivedStateFromProps && d3.componentWillMount && d3.componentWillMount(), C3 && d3.componentDidMount && d3.__h.push(d3.componentDidMount);
        d3.context = L2, d3.props = M, d3.__P = t3, d3.__g &= -5, H2 = n.__r, q2 = C3 ? 25 : 0;
        do {
          d3.__g &= -9, H2 && H2(r3), s3 = d3.render(d3.props, d3.state = d3.__s, d3.context);
        } while (8 & d3.__g && ++q2 < 25);
        C3 && (y.push.apply(d3.__h, d3.__k), d3.__k = []), d3.state = d3.__s, d3.getChildContext && (i3 = _({}, i3, d3.getChildContext())), C3 && u3.__c && d3.getSnapshotBeforeUpdate && (m3 = d3.getSnapshotBeforeUpdate(k2, b2)), A3 = s3 && s3.type === $ && null == s3.key ? s3.props.children : s3, M.__P && (s3 = l3, f4 = (t3 = M.__P).namespaceURI, c3 = o4 = null, u3.props && u3.props.__P != t3 && (u3.__k.some(function(n2) {
          n2 && J(n2, n2);
        }), u3.__k = null), l3 = u3.__k ? S(u3, 0) : null), l3 = I(t3, w(A3) ? A3 : [A3], r3, u3, i3, f4, o4, e3, l3, c3, a4), M.__P && (r3.__e = null, l3 = s3), r3.__u &= -161, p3 && p3.some(g), d3.__h.length && e3.push(d3), 1 & d3.__g && (d3.__g &= -4);
      } catch (t4) {
        if (e3.length = v3, r3.__v = null, c3 || o4) if (t4 && t4.then) {
          if (r3.__u |= 128 | c3, o4) {
            for (~(T3 = o4.indexOf(l3 || void 0)) || (T3 = o4.length); (N2 = o4[T3 - 1]) && 8 == N2.nodeType; ) T3--;
            for (; T3 < o4.length; T3++) if (N2 = o4[T3]) if (o4[T3] = null, O) {
              if (N2 == P2) break;
            } else {
              if (8 != N2.nodeType) break;
              N2.data.startsWith("$s") && (P2 = B(O = N2));
            }
          }
          if (!O) {
            for (; l3 && 8 == l3.nodeType && l3.nextSibling; ) l3 = l3.nextSibling;
            O = l3;
          }
          (s3 = B(O = r3.__c.__z || (r3.__c.__z = O))) ? (r3.__e = O, l3 = s3) : r3.__e = l3, l3 = l3 && l3.nextSibling;
        } else o4 && o4.some(g);
        else r3.__e = u3.__e;
        r3.__k || (r3.__k = u3.__k || []), t4 && t4.then || D(r3), n.__e(t4, r3, u3);
      }
    } else l3 = r3.__e = F(u3.__e, r3, u3, i3, f4, o4, e3, c3, a4, t3);
    return (s3 = n.diffed) && s3(r3), l3;
  }
  function B(n2, t3) {
    if (n2 && 8 == n2.nodeType && n2.data.startsWith("$s")) for (var r3 = 1; n2 = n2.nextSibling; ) {
      if (8 == n2.nodeType) {
        if (n2.data.startsWith("$s")) r3++;
        else if (n2.data.startsWith("/$s") && !--r3) return n2;
      }
      t3 && t3.push(n2);
    }
  }
  function D(n2) {
    n2 && (n2.__c && (n2.__c.__g |= 4), n2.__k && n2.__k.some(D));
  }
  function E(t3, r3, u3) {
    for (var i3 = 0; i3 < u3.length; ) G(u3[i3++], u3[i3++], u3[i3++]);
    n.__c && n.__c(r3, t3), t3.some(function(r4) {
      try {
        t3 = r4.__h, r4.__h = [], t3.some(function(n2) {
          n2.call(r4);
        });
      } catch (t4) {
        n.__e(t4, r4.__v);
      }
    });
  }
  function F(t3, r3, u3, i3, f4, o4, e3, l3, c3, a4) {
    var s3, h3, y3, _3, k2, b2, m3, M, $2 = u3.props || p, x2 = r3.props, C3 = r3.type;
    if ("svg" == C3 ? f4 = "http://www.w3.org/2000/svg" : "math" == C3 ? f4 = "http://www.w3.org/1998/Math/MathML" : f4 || (f4 = "http://www.w3.org/1999/xhtml"), o4) {
      for (s3 = 0; s3 < o4.length; s3++) if ((k2 = o4[s3]) && (C3 ? k2.localName == C3 : 3 == k2.nodeType)) {
        t3 = k2, o4[s3] = null;
        break;
      }
    }
    if (!t3) {
      if (M = a4.ownerDocument || document, !C3) return M.createTextNode(x2);
      t3 = M.createElementNS(f4, C3, x2.is ? x2 : a4), l3 && (n.__m && n.__m(r3, o4), l3 = false), o4 = null;
    }
    if (C3) {
      if (a4 = "template" == C3 && t3.content || t3, o4 = "textarea" == C3 && null != x2.defaultValue ? null : o4 && d.call(a4.childNodes), !l3 && o4) for ($2 = {}, s3 = 0; s3 < t3.attributes.length; s3++) $2[(k2 = t3.attributes[s3]).name] = k2.value;
      for (s3 in $2) k2 = $2[s3], "dangerouslySetInnerHTML" == s3 ? y3 = k2 : "children" == s3 || s3 in x2 || "value" == s3 && "defaultValue" in x2 || "checked" == s3 && "defaultChecked" in x2 || N(t3, s3, null, k2, f4);
      for (s3 in x2) k2 = x2[s3], "children" == s3 ? _3 = k2 : "dangerouslySetInnerHTML" == s3 ? h3 = k2 : "value" == s3 ? b2 = k2 : "checked" == s3 ? m3 = k2 : l3 && "function" != typeof k2 || $2[s3] === k2 || N(t3, s3, k2, $2[s3], f4);
      h3 ? (l3 || y3 && (h3.__html == y3.__html || h3.__html == t3.innerHTML) || (t3.innerHTML = h3.__html), r3.__k = []) : (y3 && (t3.textContent = ""), ("foreignObject" == C3 || "http://www.w3.org/1998/Math/MathML" == f4 && v.test(C3)) && (f4 = "http://www.w3.org/1999/xhtml"), I(a4, w(_3) ? _3 : [_3], r3, u3, i3, f4, o4, e3, o4 ? o4[0] : u3.__k && S(u3, 0), l3, c3), o4 && o4.some(g)), l3 && "textarea" != C3 || (s3 = "value", "progress" == C3 && null == b2 ? t3.removeAttribute(s3) : null == b2 || b2 === t3[s3] && ("progress" != C3 || b2) || N(t3, s3, b2, $2[s3], f4), s3 = "checked", null != m3 && m3 != t3[s3] && N(t3, s3, m3, $2[s3], f4));
    } else $2 === x2 || l3 && t3.data == x2 || (t3.data = x2);
    return t3;
  }
  function G(t3, r3, u3, i3) {
    try {
      "function" == typeof t3 ? r3 ? r3.__x = t3(r3) || 1 : i3 && (i3 = i3.__c || i3.__e) && (r3 = i3.__x) && (i3.__x = null, "function" == typeof r3 ? r3() : t3(null)) : t3.current = r3;
    } catch (t4) {
      n.__e(t4, u3);
    }
  }
  function J(t3, r3, u3) {
    var i3, f4, o4, e3;
    if (n.unmount && n.unmount(t3), !(i3 = t3.ref) || i3.current && i3.current != t3.__e || G(i3, null, r3, t3), i3 = t3.__c) {
      if (i3.componentWillUnmount) try {
        i3.componentWillUnmount();
      } catch (t4) {
        n.__e(t4, r3);
      }
      i3.__P = i3.__n = null;
    }
    if (i3 = t3.__k) for (e3 = 0; e3 < i3.length; e3++) i3[e3] && J(i3[e3], r3, "function" != typeof t3.type || u3 && !t3.props.__P);
    !u3 && (i3 = t3.__c) && (i3 = i3.__z) && (f4 = B(i3, o4 = [])) && (i3 == t3.__e && o4.some(g), g(f4), g(i3)), u3 || g(t3.__e), t3.__e = t3.__c = t3.__ = null;
  }
  function K(n2, t3, r3) {
    return this.constructor(n2, r3);
  }
  function Q(t3, r3) {
    var u3, i3, f4, o4;
    n.__ && n.__(t3, r3), 9 == r3.nodeType && (r3 = r3.documentElement), i3 = (u3 = t3 && 32 & t3.__u) ? null : r3.__k, r3.__k = m($, { children: [t3] }), f4 = [], o4 = [], z(r3, r3.__k, i3 || p, p, r3.namespaceURI, i3 ? null : r3.firstChild ? d.call(r3.childNodes) : null, f4, i3 ? i3.__e : r3.firstChild, u3, o4), E(f4, r3.__k, o4), r3.__k.props.children = null;
  }
  n = { __e: function(n2, t3, r3, u3) {
    for (var i3, o4, e3; t3 = t3.__; ) if ((i3 = t3.__c) && !(1 & i3.__g)) {
      i3.__g |= 4;
      try {
        if ((e3 = (o4 = i3.constructor) && o4.getDerivedStateFromError) && i3.setState(o4.getDerivedStateFromError(n2)), i3.componentDidCatch && (i3.componentDidCatch(n2, u3 || {}), e3 = 1), e3 && 8 & i3.__g) return void (i3.__g |= 2);
      } catch (t4) {
        n2 = t4;
      }
    }
    throw f = 0, n2;
  } }, t = 0, r = function(n2) {
    return null != n2 && n2.constructor === h;
  }, x.prototype.setState = function(n2, t3) {
    var r3 = this.__s;
    r3 && r3 != this.state || (r3 = this.__s = _({}, this.state)), "function" == typeof n2 && (n2 = n2(_({}, r3), this.props)), n2 && (_(r3, n2), this.__v && (t3 && this.__k.push(t3), L(this)));
  }, x.prototype.forceUpdate = function(n2) {
    this.__v && (this.__g |= 4, n2 && this.__h.push(n2), L(this));
  }, x.prototype.render = $, u = [], f = 0, o = function(n2, t3) {
    return n2.__v.__b - t3.__v.__b;
  }, e = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

  // src/replies.ts
  var ENDPOINTS = {
    session: {
      path: "/api/session",
      parameters: [],
      streams: false
    },
    runs: {
      path: "/api/runs",
      parameters: [],
      streams: false
    },
    liveRuns: {
      path: "/api/live",
      parameters: [],
      streams: true
    },
    run: {
      path: "/api/r/{run}",
      parameters: [],
      streams: false
    },
    figures: {
      path: "/api/r/{run}/figures",
      parameters: [],
      streams: false
    },
    live: {
      path: "/api/r/{run}/live",
      parameters: [],
      streams: true
    },
    columns: {
      path: "/api/r/{run}/columns",
      parameters: [],
      streams: false
    },
    rollouts: {
      path: "/api/r/{run}/rollouts",
      parameters: ["q", "sort", "offset", "limit", "columns"],
      streams: false
    },
    tasks: {
      path: "/api/r/{run}/tasks",
      parameters: ["q", "sort", "offset", "limit", "columns"],
      streams: false
    },
    facets: {
      path: "/api/r/{run}/facets",
      parameters: ["q", "of"],
      streams: false
    },
    histograms: {
      path: "/api/r/{run}/histograms",
      parameters: ["q", "of", "fields"],
      streams: false
    },
    search: {
      path: "/api/r/{run}/search",
      parameters: ["q"],
      streams: true
    },
    task: {
      path: "/api/r/{run}/t/{task}",
      parameters: [],
      streams: false
    },
    rollout: {
      path: "/api/r/{run}/t/{task}/{rollout}",
      parameters: ["row", "q", "sort"],
      streams: false
    },
    outline: {
      path: "/api/r/{run}/t/{task}/{rollout}/outline",
      parameters: ["row", "start"],
      streams: false
    },
    item: {
      path: "/api/r/{run}/t/{task}/{rollout}/item",
      parameters: ["row", "at", "start"],
      streams: false
    },
    image: {
      path: "/api/r/{run}/t/{task}/{rollout}/image",
      parameters: ["row", "at", "part"],
      streams: false
    },
    findInTranscript: {
      path: "/api/r/{run}/t/{task}/{rollout}/find",
      parameters: ["row", "text"],
      streams: false
    },
    reward: {
      path: "/api/r/{run}/t/{task}/{rollout}/reward",
      parameters: ["row"],
      streams: false
    },
    attempts: {
      path: "/api/r/{run}/t/{task}/{rollout}/attempts",
      parameters: [],
      streams: false
    },
    times: {
      path: "/api/r/{run}/t/{task}/{rollout}/times",
      parameters: [],
      streams: false
    },
    tokens: {
      path: "/api/r/{run}/t/{task}/{rollout}/tokens",
      parameters: ["row"],
      streams: false
    },
    tokenRange: {
      path: "/api/r/{run}/t/{task}/{rollout}/tokens/{turn}",
      parameters: ["row", "start"],
      streams: false
    },
    raw: {
      path: "/api/r/{run}/t/{task}/{rollout}/raw",
      parameters: ["row", "start"],
      streams: false
    },
    download: {
      path: "/api/r/{run}/t/{task}/{rollout}/download",
      parameters: ["row"],
      streams: false
    },
    tree: {
      path: "/api/r/{run}/t/{task}/{rollout}/tree",
      parameters: ["row", "path", "start"],
      streams: false
    },
    commands: {
      path: "/api/r/{run}/t/{task}/{rollout}/commands",
      parameters: ["row"],
      streams: false
    },
    diff: {
      path: "/api/diff",
      parameters: ["a", "b", "start"],
      streams: false
    },
    failures: {
      path: "/api/r/{run}/failures",
      parameters: [],
      streams: false
    },
    compare: {
      path: "/api/c/{a}/{b}",
      parameters: ["unmatched", "different_rows"],
      streams: false
    },
    comparedTasks: {
      path: "/api/c/{a}/{b}/tasks",
      parameters: ["q", "sort", "offset", "limit", "unmatched", "different_rows"],
      streams: false
    },
    select: {
      path: "/api/r/{run}/select",
      parameters: ["low", "high", "min_rollouts", "max_tokens", "solved_at", "learnability", "decided_only", "limit", "offset"],
      streams: false
    },
    cluster: {
      path: "/api/k/{cluster}",
      parameters: [],
      streams: false
    },
    about: {
      path: "/api/r/{run}/about",
      parameters: [],
      streams: false
    }
  };

  // src/api.ts
  var KEY = "palestra-token";
  var VERSION = "Palestra-Index-Version";
  var ASK_AGAIN_MS = 500;
  var request = (name, places = {}, parameters = {}) => {
    const path = ENDPOINTS[name].path.replace(/\{(\w+)\}/g, (_3, place) => encodeURIComponent(String(places[place])));
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(parameters)) {
      if (value !== null && value !== void 0 && value !== "") search.set(key, String(value));
    }
    const text = search.toString();
    return { path: text ? `${path}?${text}` : path };
  };
  var ReplyError = class extends Error {
    constructor(status, reply) {
      super(reply.message ?? `HTTP ${status}`);
      this.status = status;
      this.reply = reply;
    }
    status;
    reply;
  };
  var takeToken = () => {
    const match = /^#token=([\w-]+)$/.exec(location.hash);
    if (match?.[1]) {
      localStorage.setItem(KEY, match[1]);
      history.replaceState(null, "", location.pathname + location.search);
    }
  };
  var ask = async (path, signal) => {
    const headers = { Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
    let response;
    try {
      response = await fetch(path, { headers, signal: signal ?? null, cache: "no-store", redirect: "error" });
    } catch (error) {
      if (signal?.aborted) throw error;
      const hint = "Look whether `palestra view` still runs, then reload this page.";
      throw new ReplyError(0, { message: "The viewer does not answer.", hint });
    }
    if (!response.ok) throw await refusal(response);
    return response;
  };
  var refusal = async (response) => {
    const text = await response.text();
    try {
      const reply = JSON.parse(text);
      const hint = response.status === 403 && !reply.hint ? "Each start of `palestra view` prints a new address." : reply.hint;
      return new ReplyError(response.status, { ...reply, hint });
    } catch {
      return new ReplyError(response.status, { message: text.slice(0, 500) || `HTTP ${response.status}` });
    }
  };
  var askReply = async (wanted, signal, behind) => {
    for (; ; ) {
      try {
        const response = await ask(wanted.path, signal);
        const version = response.headers.get(VERSION);
        return { data: await response.json(), version: version === null ? null : Number(version) };
      } catch (error) {
        const indexed = error instanceof ReplyError ? error.reply.indexed : null;
        if (!indexed) throw error;
        behind?.(indexed);
      }
      await visibleAfter(ASK_AGAIN_MS, signal);
    }
  };
  var visibleAfter = async (ms, signal) => {
    do {
      await new Promise((resolve) => setTimeout(resolve, ms));
      signal?.throwIfAborted();
    } while (document.visibilityState === "hidden");
  };
  var askBlob = async (wanted, signal) => (await ask(wanted.path, signal)).blob();
  var lineOf = (text) => {
    const line = JSON.parse(text);
    if (line && typeof line === "object" && "error" in line) throw new ReplyError(500, line);
    return line;
  };
  var askLines = async (wanted, receive, signal) => {
    const body = (await ask(wanted.path, signal)).body;
    if (!body) return;
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (; ; ) {
      const { done, value } = await reader.read();
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = lines.pop() ?? "";
      if (done) lines.push(rest);
      for (const line of lines) if (line.trim()) receive(lineOf(line));
      if (done) return;
    }
  };
  var download = async (wanted, name) => {
    const address = URL.createObjectURL(await askBlob(wanted));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1e4);
  };

  // node_modules/preact/hooks/dist/hooks.mjs
  var t2;
  var r2;
  var u2;
  var i2;
  var o2 = Object.is;
  var f2 = 0;
  var c2 = [];
  var e2 = [];
  var a2 = n;
  var v2 = a2.__b;
  var l2 = a2.__r;
  var m2 = a2.diffed;
  var h2 = a2.__c;
  var s2 = a2.unmount;
  var p2 = a2.__;
  function y2(n2, t3) {
    a2.__h && a2.__h(r2, n2, f2 || t3), f2 = 0;
    var u3 = r2.__H || (r2.__H = { __: [], __h: [] });
    return n2 >= u3.__.length && u3.__.push({}), u3.__[n2];
  }
  function d2(n2) {
    return f2 = 1, _2(G2, n2);
  }
  function _2(n2, u3, i3) {
    var f4 = y2(t2++, 2);
    if (f4.t = n2, !f4.__c && (f4.__ = [i3 ? i3(u3) : G2(void 0, u3), function(n3) {
      var t3 = (f4.__N || f4.__)[0], r3 = f4.t(t3, n3);
      o2(t3, r3) || (f4.__N = [r3, f4.__[1]], f4.__c.setState({}));
    }], f4.__c = r2, !r2.__f)) {
      r2.__f = true;
      var c3 = r2.shouldComponentUpdate;
      r2.shouldComponentUpdate = function(n3, t3, r3) {
        var u4 = this.__H;
        if (!u4) return true;
        var i4 = false, f5 = this.props != n3;
        if (u4.__.some(function(n4) {
          n4.__N && (i4 = true, o2(n4.__[0], n4.__N[0]) || (f5 = true));
        }), c3) {
          var e3 = c3.call(this, n3, t3, r3);
          return i4 ? e3 || f5 : e3;
        }
        return !i4 || f5;
      };
    }
    return f4.__;
  }
  function A2(n2, u3) {
    var i3 = y2(t2++, 3);
    !a2.__s && E2(i3.__H, u3) && (i3.__P = true, i3.__ = n2, i3.u = u3, r2.__H.__h.push(i3));
  }
  function F2(n2, u3) {
    var i3 = y2(t2++, 4);
    !a2.__s && E2(i3.__H, u3) && (i3.__P = false, i3.__ = n2, i3.u = u3, r2.__h.push(i3));
  }
  function T2(n2) {
    return f2 = 5, w2(function() {
      return { current: n2 };
    }, []);
  }
  function w2(n2, r3) {
    var u3 = y2(t2++, 7);
    return E2(u3.__H, r3) && (u3.__ = n2(), u3.__H = r3), u3.__;
  }
  function b(n2, t3) {
    return f2 = 8, w2(function() {
      return n2;
    }, t3);
  }
  function g2() {
    var n2;
    do {
      for (; n2 = e2.shift(); ) try {
        C2(n2);
      } catch (t4) {
        a2.__e(t4, { __: (n2 = n2.__P) && n2.__v });
      }
      for (; n2 = c2.shift(); ) {
        var t3 = n2.__H;
        if (n2.__P && t3) try {
          t3.__h.some(C2), t3.__h.some(D2), t3.__h = [];
        } catch (r3) {
          t3.__h = [], a2.__e(r3, n2.__v);
        }
      }
    } while (e2.length);
  }
  a2.__b = function(n2) {
    r2 = null, v2 && v2(n2);
  }, a2.__ = function(n2, t3) {
    n2 && t3.__k && t3.__k.__m && (n2.__m = t3.__k.__m), p2 && p2(n2, t3);
  }, a2.__r = function(n2) {
    l2 && l2(n2), t2 = 0;
    var i3 = (r2 = n2.__c).__H;
    i3 && (u2 == r2 ? r2.__h = [] : (i3.__h.some(C2), i3.__h.some(D2), t2 = 0), i3.__h = [], i3.__.some(function(n3) {
      n3.__N && (n3.__ = n3.__N), n3.u = n3.__N = void 0;
    })), u2 = r2;
  }, a2.diffed = function(n2) {
    m2 && m2(n2);
    var t3 = n2.__c;
    t3 && t3.__H && (t3.__H.__h.length && B2(c2.push(t3)), t3.__H.__.some(function(n3) {
      n3.u && (n3.__H = n3.u);
    })), u2 = r2 = null;
  }, a2.__c = function(n2, t3) {
    t3.some(function(n3) {
      try {
        n3.__h.some(C2), n3.__h = n3.__h.filter(function(n4) {
          return !n4.__ || D2(n4);
        });
      } catch (t4) {
        n3.__h = [function() {
          throw t4;
        }];
      }
    }), h2 && h2(n2, t3);
  }, a2.unmount = function(n2) {
    s2 && s2(n2);
    var t3, r3, u3 = n2.__c;
    u3 && u3.__H && (u3.__H.__.some(function(u4) {
      try {
        if (u4.__P && u4.__c) {
          if (void 0 === r3) {
            for (r3 = n2.__; r3 && (!r3.__c || !r3.__c.__P); ) r3 = r3.__;
            r3 = r3 && r3.__c;
          }
          u4.__P = r3, B2(e2.push(u4));
        } else C2(u4);
      } catch (n3) {
        t3 = n3;
      }
    }), u3.__H = void 0, t3 && a2.__e(t3, u3.__v));
  };
  var k = "function" == typeof requestAnimationFrame;
  function z2(n2) {
    var t3, r3 = function() {
      clearTimeout(u3), k && cancelAnimationFrame(t3), setTimeout(n2);
    }, u3 = setTimeout(r3, 35);
    k && (t3 = requestAnimationFrame(r3));
  }
  function B2(n2) {
    1 != n2 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
  }
  function C2(n2) {
    var t3 = r2, u3 = n2.__c;
    "function" == typeof u3 && (n2.__c = void 0, u3()), r2 = t3;
  }
  function D2(n2) {
    var t3 = r2;
    n2.__c = n2.__(), r2 = t3;
  }
  function E2(n2, t3) {
    return !n2 || n2.length != t3.length || t3.some(function(t4, r3) {
      return !o2(t4, n2[r3]);
    });
  }
  function G2(n2, t3) {
    return "function" == typeof t3 ? t3(n2) : t3;
  }

  // src/hooks.ts
  var asError = (error) => error instanceof ReplyError ? error : new ReplyError(0, { message: error instanceof Error ? error.message : String(error) });
  var useReply = (wanted, { everyMs = 0, version = null } = {}) => {
    const path = wanted?.path ?? null;
    const [reply, setReply] = d2({
      data: null,
      error: null,
      path: null,
      version: null
    });
    const [behind, setBehind] = d2(null);
    const [turn, setTurn] = d2(0);
    const again = b(() => setTurn((before) => before + 1), []);
    A2(() => {
      if (path === null) return void 0;
      const stop = new AbortController();
      askReply({ path }, stop.signal, (indexed2) => setBehind({ indexed: indexed2, path })).then((answer) => setReply({ ...answer, error: null, path })).catch((cause) => {
        if (!stop.signal.aborted) setReply((before) => ({ data: before.data, error: asError(cause), path, version: null }));
      }).finally(() => {
        if (!stop.signal.aborted) setBehind(null);
      });
      return () => stop.abort();
    }, [path, turn]);
    const asked = T2(null);
    const isAnswered = path !== null && reply.path === path;
    A2(() => {
      if (!isAnswered || version === null || version === asked.current || version === reply.version) return;
      asked.current = version;
      again();
    }, [isAnswered, version, reply.version, again]);
    A2(() => {
      if (!everyMs || path === null) return void 0;
      const timer = setInterval(() => document.visibilityState === "visible" && again(), everyMs);
      return () => clearInterval(timer);
    }, [everyMs, path, again]);
    const indexed = behind?.path === path ? behind.indexed : null;
    return { data: reply.data, error: reply.error, indexed, loading: path !== null && reply.path !== path, again };
  };
  var useLines = (wanted, receive, { once = false } = {}) => {
    const path = wanted?.path ?? null;
    const latest = T2(receive);
    latest.current = receive;
    const [error, setError] = d2(null);
    A2(() => {
      if (path === null) return void 0;
      let stop = new AbortController();
      let timer = 0;
      const open = () => {
        const { signal } = stop = new AbortController();
        askLines({ path }, (line) => latest.current(line), signal).then(() => setError(null)).catch((cause) => {
          if (!signal.aborted) setError(asError(cause));
        }).finally(() => {
          if (!once && !signal.aborted) timer = setTimeout(open, 3e3);
        });
      };
      const close = () => {
        stop.abort();
        clearTimeout(timer);
      };
      const changed = () => {
        if (once) return;
        close();
        if (document.visibilityState === "visible") open();
      };
      if (once || document.visibilityState === "visible") open();
      document.addEventListener("visibilitychange", changed);
      return () => {
        document.removeEventListener("visibilitychange", changed);
        close();
      };
    }, [path, once]);
    return error;
  };
  var isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox]):not([type=range])"));
  var useKeys = (keys) => {
    const latest = T2(keys);
    latest.current = keys;
    A2(() => {
      const pressed = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
        const act = latest.current[event.key];
        if (!act || document.querySelector("dialog[open]")) return;
        event.preventDefault();
        act();
      };
      addEventListener("keydown", pressed);
      return () => removeEventListener("keydown", pressed);
    }, []);
  };
  var useTitle = (title2) => {
    A2(() => {
      document.title = `${title2} · Palestra`;
    }, [title2]);
  };
  var useLate = (active, ms = 250) => {
    const [late, setLate] = d2(false);
    A2(() => {
      if (!active) {
        setLate(false);
        return void 0;
      }
      const timer = setTimeout(() => setLate(true), ms);
      return () => clearTimeout(timer);
    }, [active, ms]);
    return late;
  };

  // src/format.ts
  var UNIT = " %";
  var DASH = "–";
  var fixed = (value, digits) => {
    const exact = Math.abs(value).toFixed(30);
    const point = exact.indexOf(".");
    const kept = exact.slice(0, digits ? point + digits + 1 : point);
    const isTie = point > 0 && /^50*$/.test(exact.slice(point + digits + 1));
    const isEven = Number(kept.at(-1)) % 2 === 0;
    return isTie && isEven ? `${value < 0 ? "-" : ""}${kept}` : value.toFixed(digits);
  };
  var significant = (value) => {
    const exponent = value ? Math.floor(Math.log10(Math.abs(value))) : 0;
    return exponent < -20 || exponent > 2 ? Number(value.toPrecision(3)) : Number(fixed(value, 2 - exponent));
  };
  var count = (value) => Number(fixed(value, 0)).toLocaleString("en-US");
  var amount = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  var percent = (share) => {
    if (share === null || share === void 0 || Number.isNaN(share)) return DASH;
    if (share > 0 && share < 1e-3) return `< 0.1${UNIT}`;
    if (share > 0.999 && share < 1) return `> 99.9${UNIT}`;
    return `${fixed(100 * share, 1)}${UNIT}`;
  };
  var decimal = (value, digits = 3) => value === null || value === void 0 || Number.isNaN(value) ? DASH : fixed(value, digits);
  var number = (value) => {
    if (value === null || value === void 0 || Number.isNaN(value)) return DASH;
    if (Math.abs(value) >= 100) return count(value);
    return String(significant(value));
  };
  var signed = (value) => value === null || value === void 0 ? DASH : `${value > 0 ? "+" : value < 0 ? "−" : ""}${fixed(Math.abs(value), 3)}`;
  var SIZES = ["bytes", "KB", "MB", "GB", "TB"];
  var bytes = (value) => {
    let size = value;
    let unit = 0;
    while (size >= 1e3 && unit < SIZES.length - 1) {
      size /= 1e3;
      unit += 1;
    }
    return `${unit === 0 ? count(size) : number(size)} ${SIZES[unit]}`;
  };
  var duration = (seconds) => {
    if (seconds === null || seconds === void 0 || !Number.isFinite(seconds)) return DASH;
    if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
    if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
    const whole = Math.round(seconds);
    if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
    if (whole < 86400) return pair(Math.floor(whole / 3600), "h", Math.floor(whole % 3600 / 60), "min");
    return pair(Math.floor(whole / 86400), "d", Math.floor(whole % 86400 / 3600), "h");
  };
  var pair = (large, unit, small, under) => small ? `${large} ${unit} ${small} ${under}` : `${large} ${unit}`;
  var moment = (seconds) => {
    if (!seconds) return DASH;
    const at = new Date(seconds * 1e3);
    const two = (part2) => String(part2).padStart(2, "0");
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
  };
  var clock = (seconds) => new Date(seconds * 1e3).toTimeString().slice(0, 8);
  var interval = (low, high) => low === null || low === void 0 || high === null || high === void 0 ? "" : `${fixed(low, 3)} to ${fixed(high, 3)}`;
  var percents = (low, high) => `${fixed(100 * low, 1)} to ${percent(high)}`;
  var compact = (value) => {
    if (Math.abs(value) >= 1e6) return `${number(value / 1e6)}M`;
    if (Math.abs(value) >= 1e3) return `${number(value / 1e3)}k`;
    return String(significant(value));
  };

  // src/text.ts
  var HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
  var MARKS = /(\p{M}{12})(\p{M}+)/gu;
  var named = (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 32) return String.fromCharCode(9216 + code);
    if (code === 127) return "␡";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  };
  var visible = (text) => text.replaceAll("\r\n", "\n").replace(HIDDEN, named).replace(MARKS, (_3, kept, more) => `${kept}⟨${[...more].length} more marks⟩`);
  var sentence = (text) => text.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase());
  var fullSentence = (text) => sentence(text).replace(/([^.?!])$/u, "$1.");
  var visibleLine = (text, limit) => {
    const line = text.slice(0, 4 * limit).split(/\s+/u).filter(Boolean).join(" ");
    return visible(line.length <= limit ? line : `${line.slice(0, limit - 1)}…`);
  };
  var SGR = /\x1b\[([0-9;]*)m/g;
  var FLAGS = { 1: "ansi-bold", 3: "ansi-italic", 4: "ansi-under" };
  var ansiSpans = (text) => {
    if (!text.includes("\x1B[")) return [{ text: visible(text), style: "" }];
    const spans = [];
    let flags = [];
    let colour = "";
    let start = 0;
    const push = (end) => {
      if (end > start) {
        spans.push({ text: visible(text.slice(start, end)), style: [...flags, colour].filter(Boolean).join(" ") });
      }
    };
    for (const match of text.matchAll(SGR)) {
      push(match.index);
      start = match.index + match[0].length;
      for (const code of (match[1] || "0").split(";").map(Number)) {
        if (code === 0) [flags, colour] = [[], ""];
        else if (FLAGS[code]) flags = [.../* @__PURE__ */ new Set([...flags, FLAGS[code]])];
        else if (code >= 30 && code <= 37 || code >= 90 && code <= 97) colour = `ansi-${code % 10}`;
        else if (code === 39) colour = "";
      }
    }
    push(text.length);
    return spans;
  };
  var coloursOf = (text) => (text.match(SGR) ?? []).join("");
  var isPlain = (text) => /^[\x20-\x7e\n]*$/.test(text);

  // node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
  var f3 = /* @__PURE__ */ Symbol.for("pv");
  var o3 = 0;
  function a3(t3, e3, n2, u3, a4, i3) {
    e3 || (e3 = {});
    var c3, l3, p3 = e3;
    if ("ref" in p3 && "function" != typeof t3) for (l3 in p3 = {}, e3) "ref" == l3 ? c3 = e3[l3] : p3[l3] = e3[l3];
    var s3 = { type: t3, props: p3, key: n2, ref: c3, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: f3, __v: --o3, __i: -1, __u: 0 };
    return (a4 || i3) && (s3.__source = a4, s3.__self = i3), n.vnode && n.vnode(s3), s3;
  }

  // src/parts/common.tsx
  var Theirs = ({ text, limit = 200 }) => /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", title: text.length > limit ? visibleLine(text, 2 * limit) : void 0, children: visibleLine(text, limit) });
  var FilePath = ({ text, limit = 300 }) => /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", title: text.length > limit ? visibleLine(text, 2 * limit) : void 0, children: visibleLine(text, limit).split("/").flatMap((part2, at) => at ? ["/", /* @__PURE__ */ a3("wbr", {}, at), part2] : [part2]) });
  var WithOptions = ({ text }) => /* @__PURE__ */ a3($, { children: text.split(/(`[^`\n]+`|--[a-z][a-z-]*|\+[a-z_]+=[\w[\]]+)/).map((part2, at) => {
    if (at % 2 === 0) return part2;
    const isQuoted = part2.startsWith("`");
    return /* @__PURE__ */ a3("code", { class: isQuoted ? "quoted" : "option", children: isQuoted ? part2.slice(1, -1) : part2 }, at);
  }) });
  var Coloured = ({ text }) => /* @__PURE__ */ a3($, { children: ansiSpans(text).map(
    (span, at) => span.style ? /* @__PURE__ */ a3("span", { class: span.style, children: span.text }, at) : span.text
  ) });
  var TheirBlock = ({ text, label }) => /* @__PURE__ */ a3("pre", { class: "theirs", dir: "auto", tabIndex: 0, role: "region", "aria-label": label, children: visible(text) });
  var ErrorBox = ({ error }) => {
    const { hint, where, layer, nearest, position } = error.reply;
    const facts = [where, layer, position !== null && position !== void 0 && `at character ${position + 1}`].filter(Boolean);
    return /* @__PURE__ */ a3("div", { class: "error", role: "alert", children: [
      /* @__PURE__ */ a3("p", { children: [
        /* @__PURE__ */ a3("b", { children: sentence(visible(error.message)) }),
        facts.length > 0 && /* @__PURE__ */ a3("span", { class: "quiet", children: [
          " ",
          visible(facts.join(", "))
        ] })
      ] }),
      nearest && /* @__PURE__ */ a3("p", { children: [
        "Nearest field: ",
        visible(nearest),
        "."
      ] }),
      hint && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3(WithOptions, { text: sentence(visible(hint)) }) }),
      error.status === 409 && /* @__PURE__ */ a3("button", { type: "button", onClick: () => location.reload(), children: "Load again" })
    ] });
  };
  var Boundary = class extends x {
    state = { error: null };
    static getDerivedStateFromError(error) {
      return { error };
    }
    render() {
      const { error } = this.state;
      if (!error) return this.props.children;
      return /* @__PURE__ */ a3(ErrorBox, { error: new ReplyError(0, { message: `This part cannot be drawn: ${error.message}`, where: this.props.name }) });
    }
  };
  var Panel = ({ title: title2, id, lead, reply, class: name, children }) => {
    const late = useLate(reply.loading);
    return /* @__PURE__ */ a3("section", { class: name, id, "aria-busy": reply.loading, children: [
      title2 && /* @__PURE__ */ a3("h2", { children: title2 }),
      lead && /* @__PURE__ */ a3("p", { class: "section-lead", children: lead }),
      reply.error && /* @__PURE__ */ a3(ErrorBox, { error: reply.error }),
      !reply.data && !reply.error && late && /* @__PURE__ */ a3(Waiting, { indexed: reply.indexed }),
      reply.data && /* @__PURE__ */ a3(Boundary, { name: title2 ?? id ?? "panel", children: /* @__PURE__ */ a3(Drawn, { draw: children, data: reply.data }) })
    ] });
  };
  var Waiting = ({ indexed }) => /* @__PURE__ */ a3("p", { class: "quiet waiting", role: indexed ? "status" : void 0, children: indexed ? `Not read yet: ${bytes(indexed.indexed_bytes)} of ${bytes(indexed.total_bytes)} so far. This part appears by itself.` : "Loading…" });
  var Drawn = ({ draw, data }) => /* @__PURE__ */ a3($, { children: draw(data) });
  var copyText = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  var announced = null;
  var announce = (text) => announced?.(text);
  var copyAndSay = (text, what) => {
    copyText(text).then(
      () => announce(`${what} copied.`),
      () => announce(`${what} could not be copied: the browser refused.`)
    );
  };
  var StatusLine = () => {
    const [text, setText] = d2("");
    A2(() => {
      announced = setText;
      return () => {
        announced = null;
      };
    }, []);
    A2(() => {
      if (!text) return void 0;
      const timer = setTimeout(() => setText(""), 2500);
      return () => clearTimeout(timer);
    }, [text]);
    return /* @__PURE__ */ a3("p", { class: text ? "status shown" : "status", role: "status", children: text });
  };
  var Command = ({ name, text }) => /* @__PURE__ */ a3("div", { class: "copyable", children: [
    /* @__PURE__ */ a3("code", { tabIndex: 0, role: "region", "aria-label": name, children: /* @__PURE__ */ a3(WithOptions, { text: visible(text) }) }),
    /* @__PURE__ */ a3("button", { type: "button", disabled: !isPlain(text), onClick: () => copyAndSay(text, name), "aria-label": `Copy: ${name}`, children: "Copy" })
  ] });
  var Scrolling = ({ label, children }) => /* @__PURE__ */ a3("div", { class: "scrolling", tabIndex: 0, role: "region", "aria-label": label, children });
  var Facts = ({ pairs }) => /* @__PURE__ */ a3("dl", { class: "settings", children: pairs.map(({ name, value }) => /* @__PURE__ */ a3("div", { children: [
    /* @__PURE__ */ a3("dt", { children: visibleLine(name, 60) }),
    /* @__PURE__ */ a3("dd", { children: /* @__PURE__ */ a3(Theirs, { text: value }) })
  ] }, name)) });
  var Notes = ({ texts, title: title2 = "Note." }) => texts.length === 0 ? null : /* @__PURE__ */ a3("ul", { class: "findings", children: texts.map((text) => /* @__PURE__ */ a3("li", { children: [
    /* @__PURE__ */ a3("b", { children: [
      title2,
      " "
    ] }),
    /* @__PURE__ */ a3(WithOptions, { text: sentence(visible(text)) })
  ] }, text)) });
  var TIP_ROOM = 60;
  var fitsAbove = (mark, top) => {
    const chart = mark.closest(".figure")?.querySelector("svg");
    return top - Math.max(0, chart?.getBoundingClientRect().top ?? 0) > TIP_ROOM;
  };
  var Tip = () => {
    const [tip, setTip] = d2(null);
    A2(() => {
      let pointer = null;
      let mark = null;
      const show = (target) => {
        mark = target?.closest?.("[data-tip]") ?? null;
        if (!mark) {
          setTip(null);
          return;
        }
        const box = mark.getBoundingClientRect();
        const above = fitsAbove(mark, box.top);
        const x2 = pointer ? pointer.x : box.left + box.width / 2;
        const y3 = above ? box.top - 6 : pointer ? pointer.y + 24 : box.bottom + 8;
        setTip({ text: mark.getAttribute("data-tip") ?? "", x: x2, y: y3, above });
      };
      const over = (event) => {
        pointer = event instanceof MouseEvent ? { x: event.clientX, y: event.clientY } : null;
        show(event.target);
      };
      const scrolled = () => mark && show(pointer ? document.elementFromPoint(pointer.x, pointer.y) : document.activeElement);
      const escaped = (event) => event.key === "Escape" && show(null);
      document.addEventListener("pointerover", over);
      document.addEventListener("focusin", over);
      document.addEventListener("scroll", scrolled, { capture: true, passive: true });
      document.addEventListener("keydown", escaped);
      return () => {
        document.removeEventListener("pointerover", over);
        document.removeEventListener("focusin", over);
        document.removeEventListener("scroll", scrolled, { capture: true });
        document.removeEventListener("keydown", escaped);
      };
    }, []);
    const element = T2(null);
    F2(() => {
      if (!tip || !element.current) return;
      const half = element.current.offsetWidth / 2 + 8;
      element.current.style.left = `${Math.max(half, Math.min(tip.x, innerWidth - half))}px`;
    }, [tip]);
    if (!tip) return null;
    return /* @__PURE__ */ a3("div", { ref: element, id: "tip", "aria-hidden": "true", class: tip.above ? "above" : "below", style: { top: `${tip.y}px` }, children: tip.text });
  };

  // src/router.ts
  var CHANGED = "palestra-place";
  var current = () => ({ path: location.pathname, search: new URLSearchParams(location.search) });
  var go = (to, { replace = false } = {}) => {
    if (to === location.pathname + location.search) return;
    if (replace) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    dispatchEvent(new Event(CHANGED));
  };
  var placeWith = (changes, path = location.pathname) => {
    const search = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") search.delete(name);
      else search.set(name, value);
    }
    return placeOf(path, search);
  };
  var placeOf = (path, search) => {
    const text = (search instanceof URLSearchParams ? search : new URLSearchParams(search)).toString();
    return text ? `${path}?${text}` : path;
  };
  var setParameters = (changes, options = { replace: true }) => go(placeWith(changes), options);
  var usePlace = () => {
    const [place, setPlace] = d2(current);
    A2(() => {
      const changed = () => setPlace(current());
      addEventListener("popstate", changed);
      addEventListener(CHANGED, changed);
      return () => {
        removeEventListener("popstate", changed);
        removeEventListener(CHANGED, changed);
      };
    }, []);
    return place;
  };
  var followLinks = () => {
    document.addEventListener("click", (event) => {
      if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      const link = event.target?.closest("a");
      const to = link?.getAttribute("href");
      if (!to?.startsWith("/") || to.startsWith("//") || link?.hasAttribute("download") || link?.target) return;
      event.preventDefault();
      go(to);
      scrollTo(0, 0);
    });
  };

  // src/places.ts
  var part = (value) => value === null || value === void 0 ? "-" : encodeURIComponent(String(value));
  var runPlace = (run) => `/r/${run}`;
  var tablePlace = (run, of, query = "", sort = "") => placeOf(`/r/${run}/${of}`, { ...query && { q: query }, ...sort && { sort } });
  var taskPlace = (run, task) => `/r/${run}/t/${part(task)}`;
  var rolloutPlace = (run, task, rollout, options = {}) => {
    const search = new URLSearchParams();
    if (options.row !== null && options.row !== void 0 && (task === null || rollout === null || options.isMarked)) search.set("row", String(options.row));
    if (options.q) search.set("q", options.q);
    if (options.sort) search.set("sort", options.sort);
    if (options.panel) search.set("panel", options.panel);
    if (options.item !== void 0) search.set("item", String(options.item));
    return placeOf(`/r/${run}/t/${part(task)}/${part(rollout)}`, search);
  };
  var reference = (run, task, rollout, row) => task === null || rollout === null ? `${run}/-/-/${row}` : `${run}/${part(task)}/${part(rollout)}`;
  var keyText = (task, rollout, row) => task === null || rollout === null ? `row ${row ?? "?"}` : `${task}:${rollout}`;

  // src/pages/about.tsx
  var AboutPage = ({ view }) => {
    useKeys({ Escape: () => go(runPlace(view.id)) });
    const reply = useReply(request("about", { run: view.id }), { version: view.version });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h1", { class: "small", children: "About this run" }),
      /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (about) => /* @__PURE__ */ a3(Parts, { about }) })
    ] });
  };
  var Parts = ({ about }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3(Files, { about }),
    about.bad_lines_total > 0 && /* @__PURE__ */ a3(BadLines, { about }),
    /* @__PURE__ */ a3("div", { class: "columns", children: [
      /* @__PURE__ */ a3(Named, { title: "Settings", pairs: about.settings }),
      /* @__PURE__ */ a3(Named, { title: "Versions", pairs: about.versions }),
      /* @__PURE__ */ a3(Named, { title: "Index", pairs: about.index })
    ] }),
    about.manifest && /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h2", { class: "section", children: "Manifest" }),
      /* @__PURE__ */ a3(TheirBlock, { text: about.manifest, label: "Manifest" })
    ] })
  ] });
  var Files = ({ about }) => {
    return /* @__PURE__ */ a3(Scrolling, { label: "Files", children: /* @__PURE__ */ a3("table", { children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "File" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "Path" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Size" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "Changed" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: about.files.map((file) => /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: visible(file.role) }),
        /* @__PURE__ */ a3("td", { class: "text", children: /* @__PURE__ */ a3(FilePath, { text: file.path }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: file.bytes === null ? /* @__PURE__ */ a3("span", { class: "quiet", children: "not there" }) : bytes(file.bytes) }),
        /* @__PURE__ */ a3("td", { class: "nowrap", children: file.modified_at === null ? "" : moment(file.modified_at) })
      ] }, `${file.role} ${file.path}`)) })
    ] }) });
  };
  var BadLines = ({ about }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3("h2", { class: "section", children: [
      "Lines that cannot be read: ",
      count(about.bad_lines_total)
    ] }),
    /* @__PURE__ */ a3(Scrolling, { label: "Lines that cannot be read", children: /* @__PURE__ */ a3("table", { children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "File" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Line" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "Reason" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: about.bad_lines.map((line) => /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: /* @__PURE__ */ a3(Theirs, { text: line.file }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: count(line.line) }),
        /* @__PURE__ */ a3("td", { children: visible(line.reason) })
      ] }, `${line.file} ${line.line}`)) })
    ] }) })
  ] });
  var Named = ({ title: title2, pairs }) => pairs.length === 0 ? null : /* @__PURE__ */ a3("section", { children: [
    /* @__PURE__ */ a3("h2", { children: title2 }),
    /* @__PURE__ */ a3("dl", { class: "fields", children: pairs.map((pair2) => /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: visible(pair2.name) }),
      /* @__PURE__ */ a3("dd", { children: /* @__PURE__ */ a3(Theirs, { text: pair2.value, limit: 400 }) })
    ] }, pair2.name)) })
  ] });

  // src/parts/table.tsx
  var nextSort = (name, sort, numeric) => {
    const order = numeric ? [`-${name}`, name] : [name, `-${name}`];
    const at = order.indexOf(sort);
    return at === 0 ? order[1] ?? "" : at === 1 ? "" : order[0] ?? "";
  };
  var Table = ({ label, heads, sort, children }) => /* @__PURE__ */ a3("div", { class: "scrolling", tabIndex: 0, role: "region", "aria-label": label, children: /* @__PURE__ */ a3("table", { class: "tasks", children: [
    /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: heads.map((head) => {
      const direction = sort === head.name ? "ascending" : sort === `-${head.name}` ? "descending" : void 0;
      return /* @__PURE__ */ a3("th", { scope: "col", class: `${head.numeric ? "n" : ""} ${head.class ?? ""}`.trim(), "aria-sort": direction, children: head.sortable ? /* @__PURE__ */ a3(
        "button",
        {
          type: "button",
          onClick: () => setParameters({ sort: nextSort(head.name, sort, Boolean(head.numeric)) || null, offset: null }, { replace: false }),
          children: head.label
        }
      ) : head.label }, head.name);
    }) }) }),
    /* @__PURE__ */ a3("tbody", { children })
  ] }) });
  var Pages = ({ offset, size, matches, total, noun, below = false }) => {
    const to = (next) => {
      setParameters({ offset: next ? String(next) : null }, { replace: false });
      document.querySelector(".tasks")?.scrollIntoView({ block: "nearest" });
    };
    const text = total === 0 ? `no ${noun} yet` : matches === 0 ? `no ${noun} of ${count(total)} match` : `${count(offset + 1)} to ${count(Math.min(offset + size, matches))} of ${count(matches)}${matches < total ? ` that match, of ${count(total)}` : ""} ${noun}`;
    return /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": below ? "Pages, below the table" : "Pages of the table", children: [
      /* @__PURE__ */ a3("button", { type: "button", disabled: offset === 0, onClick: () => to(Math.max(0, offset - size)), children: "Previous" }),
      /* @__PURE__ */ a3("p", { role: below ? void 0 : "status", children: text }),
      /* @__PURE__ */ a3("button", { type: "button", disabled: offset + size >= matches, onClick: () => to(offset + size), children: "Next" })
    ] });
  };
  var moveRow = (step) => {
    const rows = [...document.querySelectorAll("[data-row]")];
    const link = (row) => row?.matches("a, button, summary, [tabindex]") ? row : row?.querySelector("a, button, summary");
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = at < 0 ? step > 0 ? 0 : rows.length - 1 : Math.min(rows.length - 1, Math.max(0, at + step));
    const target = link(rows[next]);
    target?.focus({ preventScroll: true });
    rows[next]?.scrollIntoView({ block: "nearest" });
  };
  var useRowKeys = () => useKeys({ j: () => moveRow(1), k: () => moveRow(-1) });

  // src/pages/cluster.tsx
  var RENEW_MS = 15e3;
  var ClusterPage = ({ id }) => {
    useRowKeys();
    useKeys({ Escape: () => go("/") });
    const reply = useReply(request("cluster", { cluster: id }), { everyMs: RENEW_MS });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("nav", { class: "parts", "aria-label": "Where you are", children: /* @__PURE__ */ a3("ol", { class: "crumbs", children: [
        /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: "/", children: "Runs" }) }),
        /* @__PURE__ */ a3("li", { "aria-current": "page", children: "Jobs" })
      ] }) }),
      /* @__PURE__ */ a3("main", { id: "main", tabIndex: -1, children: /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (cluster) => /* @__PURE__ */ a3(Standing, { cluster }) }) })
    ] });
  };
  var Standing = ({ cluster }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3(Titled, { name: cluster.folder_name }),
    /* @__PURE__ */ a3("p", { class: "lead", children: [
      "Jobs of run ",
      /* @__PURE__ */ a3(Theirs, { text: cluster.name, limit: 60 }),
      " in ",
      /* @__PURE__ */ a3(FilePath, { text: cluster.output_dir }),
      ", as of ",
      moment(cluster.asked_at),
      " (",
      ago(cluster.asked_at),
      ")"
    ] }),
    cluster.problem && /* @__PURE__ */ a3("p", { class: "error", children: visible(cluster.problem) }),
    /* @__PURE__ */ a3("dl", { class: "key-figures", children: [...cluster.counts, ...cluster.rollouts].map((line, at) => /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: visible(line.name) }),
      /* @__PURE__ */ a3("dd", { children: [
        count(line.count),
        /* @__PURE__ */ a3("small", { children: at < cluster.counts.length ? "jobs" : "rollouts" })
      ] })
    ] }, at)) }),
    cluster.command && /* @__PURE__ */ a3(Command, { name: "The command that goes on", text: cluster.command }),
    cluster.command_note && /* @__PURE__ */ a3("p", { class: "quiet", children: /* @__PURE__ */ a3(WithOptions, { text: visible(cluster.command_note) }) }),
    /* @__PURE__ */ a3(Grid, { units: cluster.units }),
    /* @__PURE__ */ a3(Scrolling, { label: "Shards and jobs", children: /* @__PURE__ */ a3("table", { class: "units", children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "Shard" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "State" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Scored" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Failed" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Left" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "Job" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Restarts" }),
        /* @__PURE__ */ a3("th", { scope: "col", children: "How it ended" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: cluster.units.map((unit) => /* @__PURE__ */ a3(UnitRow, { unit }, unit.name)) })
    ] }) })
  ] });
  var Titled = ({ name }) => {
    useTitle(`Jobs of ${visible(name)}`);
    return /* @__PURE__ */ a3("h1", { class: "small", children: /* @__PURE__ */ a3(Theirs, { text: name }) });
  };
  var ago = (at) => {
    const seconds = Date.now() / 1e3 - at;
    return seconds < 1 ? "now" : `${duration(seconds)} ago`;
  };
  var SIGNS = { good: "✓", bad: "✕", open: "…" };
  var or = (value) => value === null ? "–" : count(value);
  var UnitRow = ({ unit }) => /* @__PURE__ */ a3("tr", { "data-row": true, id: unitId(unit), tabIndex: -1, children: [
    /* @__PURE__ */ a3("th", { scope: "row", children: [
      unit.run ? /* @__PURE__ */ a3("a", { href: runPlace(unit.run), children: /* @__PURE__ */ a3(Theirs, { text: unit.label }) }) : /* @__PURE__ */ a3(Theirs, { text: unit.label }),
      unit.label !== unit.name && /* @__PURE__ */ a3("small", { children: /* @__PURE__ */ a3(Theirs, { text: unit.name }) })
    ] }),
    /* @__PURE__ */ a3("td", { class: "nowrap", children: /* @__PURE__ */ a3("span", { class: `standing ${unit.tone}`, children: [
      SIGNS[unit.tone],
      " ",
      visible(unit.standing)
    ] }) }),
    /* @__PURE__ */ a3("td", { class: "n", children: [
      or(unit.scored),
      unit.expected !== null && /* @__PURE__ */ a3("small", { children: [
        "of ",
        count(unit.expected)
      ] })
    ] }),
    /* @__PURE__ */ a3("td", { class: "n", children: or(unit.failed) }),
    /* @__PURE__ */ a3("td", { class: "n", children: or(unit.left) }),
    /* @__PURE__ */ a3("td", { children: unit.job || unit.job_id ? /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(Theirs, { text: unit.job, limit: 60 }),
      " ",
      /* @__PURE__ */ a3("small", { children: visible(unit.job_id) })
    ] }) : "–" }),
    /* @__PURE__ */ a3("td", { class: "n", children: count(unit.restarts) }),
    /* @__PURE__ */ a3("td", { class: "text", children: [
      unit.reason ? /* @__PURE__ */ a3(Theirs, { text: unit.reason, limit: 200 }) : unit.log.length === 0 && "–",
      unit.next && /* @__PURE__ */ a3("p", { class: "next", children: [
        /* @__PURE__ */ a3("b", { children: "Next:" }),
        " ",
        visible(unit.next)
      ] }),
      unit.log.length > 0 && /* @__PURE__ */ a3("details", { children: [
        /* @__PURE__ */ a3("summary", { children: "Last log lines" }),
        /* @__PURE__ */ a3(TheirBlock, { text: unit.log.join("\n"), label: `Last log lines of ${visible(unit.name)}` })
      ] })
    ] })
  ] });
  var unitId = (unit) => `unit-${unit.seed}-${unit.chunk}`;
  var inOrder = (numbers) => [...new Set(numbers.filter(Boolean))].sort((a4, b2) => Number(a4) - Number(b2));
  var Grid = ({ units }) => {
    const seeds = inOrder(units.map((unit) => unit.seed));
    const chunks = inOrder(units.map((unit) => unit.chunk));
    if (seeds.length * chunks.length < 2) return null;
    return /* @__PURE__ */ a3(Scrolling, { label: "Seeds by chunks", children: /* @__PURE__ */ a3("table", { class: "grid-table", children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "Seed, by chunk" }),
        chunks.map((chunk) => /* @__PURE__ */ a3("th", { scope: "col", children: visible(chunk) }, chunk))
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: seeds.map((seed) => /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: visible(seed) }),
        chunks.map((chunk) => {
          const unit = units.find((candidate) => candidate.seed === seed && candidate.chunk === chunk);
          if (!unit) return /* @__PURE__ */ a3("td", {}, chunk);
          const tip = `${unit.standing}: ${or(unit.scored)} of ${or(unit.expected)} scored`;
          return /* @__PURE__ */ a3("td", { class: unit.tone, children: /* @__PURE__ */ a3("a", { href: `#${unitId(unit)}`, "data-tip": visible(tip), "aria-label": `Seed ${visible(seed)}, chunk ${visible(chunk)}: ${visible(tip)}`, children: SIGNS[unit.tone] }) }, chunk);
        })
      ] }, seed)) })
    ] }) });
  };

  // src/parts/charts.tsx
  var HEIGHT = 190;
  var TOP = 14;
  var BOTTOM = 26;
  var PADDING = 4;
  var LEAST_PIXELS = 1.5;
  var MOST_LABELS = 11;
  var WIDEST_BAR = 18;
  var scaled = (scale, value) => scale.bottom - (value - scale.low) / (scale.high - scale.low) * (scale.bottom - scale.top);
  var pct = (value) => `${Number(value.toFixed(3))}%`;
  var niceStep = (step, whole) => {
    if (whole && step <= 1) return 1;
    const power = 10 ** Math.floor(Math.log10(step));
    const distance = (nice) => Math.abs(Math.log10(power * nice / step));
    const factors = whole && power === 1 ? [1, 2, 3, 5, 10] : [1, 2, 2.5, 5, 10];
    return power * factors.reduce((best, nice) => distance(nice) < distance(best) ? nice : best);
  };
  var niceTicks = (largest) => {
    const step = niceStep(largest / 4, true);
    return Array.from({ length: Math.max(1, Math.ceil(largest / step)) + 1 }, (_3, at) => step * at);
  };
  var spanTicks = (low, high) => {
    const step = niceStep((high - low) / 4, false);
    const ticks = [];
    for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) ticks.push(Number((at * step).toPrecision(10)));
    return ticks;
  };
  var Grid2 = ({ scale, ticks }) => /* @__PURE__ */ a3($, { children: ticks.map(([value, text]) => /* @__PURE__ */ a3("g", { children: [
    /* @__PURE__ */ a3("line", { x1: "0%", y1: scaled(scale, value), x2: "100%", y2: scaled(scale, value), class: value ? "grid" : "base" }),
    /* @__PURE__ */ a3("text", { x: "0", y: scaled(scale, value), dx: "-8", dy: "0.32em", "text-anchor": "end", children: text })
  ] }, value)) });
  var Labels = ({ texts, width, y: y3 }) => {
    const step = Math.ceil(texts.length / MOST_LABELS);
    const last = texts.length - 1;
    const places = texts.map((_3, at) => at).filter((at) => at === last || at % step === 0 && last - at > step / 2);
    const many = places.length > 6;
    return /* @__PURE__ */ a3($, { children: places.map((at, number_) => /* @__PURE__ */ a3("text", { x: pct((at + 0.5) * width), y: y3, "text-anchor": "middle", class: many && number_ % 2 && at !== last ? "spare" : "", children: visible(texts[at] ?? "") }, at)) });
  };
  var Figure = ({ title: title2, reading, heads, rows, children }) => /* @__PURE__ */ a3("section", { class: "figure", children: [
    /* @__PURE__ */ a3("h3", { children: title2 }),
    reading && /* @__PURE__ */ a3("p", { class: "reading", children: reading }),
    children,
    /* @__PURE__ */ a3("details", { class: "numbers", children: [
      /* @__PURE__ */ a3("summary", { children: "Numbers" }),
      /* @__PURE__ */ a3("div", { class: "scrolling", tabIndex: 0, role: "region", "aria-label": `Numbers of: ${title2}`, children: /* @__PURE__ */ a3("table", { children: [
        /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: heads.map((head) => /* @__PURE__ */ a3("th", { scope: "col", children: head }, head)) }) }),
        /* @__PURE__ */ a3("tbody", { children: rows.map((row, at) => /* @__PURE__ */ a3("tr", { children: row.map((cell, column) => column ? /* @__PURE__ */ a3("td", { children: cell }, column) : /* @__PURE__ */ a3("th", { scope: "row", children: cell }, column)) }, at)) })
      ] }) })
    ] })
  ] });
  var Plot = ({ label, title: title2, height, children }) => /* @__PURE__ */ a3("div", { class: "plot", children: [
    /* @__PURE__ */ a3("svg", { class: "chart", width: "100%", height, role: "group", "aria-label": label, children }),
    /* @__PURE__ */ a3("p", { class: "x-title", children: title2 })
  ] });
  var ColumnChart = ({ bars, tone, unit, title: title2, label, link }) => {
    const total = bars.reduce((sum, bar) => sum + bar.count, 0);
    const ticks = niceTicks(Math.max(1, ...bars.map((bar) => bar.count)));
    const scale = { low: 0, high: ticks[ticks.length - 1] ?? 1, top: TOP, bottom: HEIGHT - BOTTOM };
    const width = 100 / bars.length;
    const wide = Math.min(width * 0.8, WIDEST_BAR);
    return /* @__PURE__ */ a3(Plot, { label, title: title2, height: HEIGHT, children: [
      /* @__PURE__ */ a3(Grid2, { scale, ticks: ticks.map((tick) => [tick, tick < 1e4 ? count(tick) : compact(tick)]) }),
      bars.map((bar, at) => {
        const height = bar.count ? Math.max(scale.bottom - scaled(scale, bar.count), LEAST_PIXELS) : 0;
        const tip = `${bar.label}: ${amount(bar.count, unit)} (${percent(total ? bar.count / total : 0)})`;
        const inside = /* @__PURE__ */ a3($, { children: [
          /* @__PURE__ */ a3("rect", { x: pct(at * width), y: scale.top, width: pct(width), height: scale.bottom - scale.top, class: "hit" }),
          /* @__PURE__ */ a3("rect", { x: pct(at * width + (width - wide) / 2), y: scale.bottom - height, width: pct(wide), height, class: `bar ${tone(bar, at)}` })
        ] });
        const to = bar.count ? link(bar) : null;
        return to ? /* @__PURE__ */ a3("a", { class: "mark", href: to, "data-tip": tip, "aria-label": `${tip}: show them`, children: inside }, at) : /* @__PURE__ */ a3("g", { class: "mark", "data-tip": tip, children: inside }, at);
      }),
      /* @__PURE__ */ a3(Labels, { texts: bars.map((bar) => bar.tick), width, y: HEIGHT - BOTTOM + 16 })
    ] });
  };
  var valueText = (value, binary) => binary ? percent(value) : decimal(value);
  var spreadText = (spread2, binary) => {
    const middle = spread2.value === null ? "–" : valueText(spread2.value, binary);
    if (spread2.low === null || spread2.high === null) return middle;
    return `${middle} (95 %: ${valueText(spread2.low, binary)} to ${valueText(spread2.high, binary)})`;
  };
  var curveScale = (spreads, binary) => {
    const bottom = HEIGHT - BOTTOM;
    if (binary) return { low: 0, high: 1, top: TOP, bottom };
    const ends = spreads.flatMap((spread2) => [spread2.value, spread2.low, spread2.high]).filter((end) => end !== null);
    const low = Math.min(...ends);
    const high = Math.max(...ends);
    const room = (high - low) * 0.08 || 0.5;
    return { low: low - room, high: high + room, top: TOP, bottom };
  };
  var curveTicks = (scale, binary) => spanTicks(scale.low, scale.high).map((tick) => [tick, binary ? `${Math.round(100 * tick)} %` : String(Number(tick.toPrecision(6)))]);
  var Line = ({ xs, ys, name }) => /* @__PURE__ */ a3($, { children: xs.slice(1).map((x2, at) => /* @__PURE__ */ a3("line", { x1: pct(xs[at] ?? 0), y1: ys[at], x2: pct(x2), y2: ys[at + 1], class: `line ${name}` }, at)) });
  var Point = ({ x: x2, spread: spread2, scale, tip, href }) => {
    if (spread2.value === null) return null;
    const y3 = scaled(scale, spread2.value);
    const inside = /* @__PURE__ */ a3($, { children: [
      spread2.low !== null && spread2.high !== null && /* @__PURE__ */ a3(
        "line",
        {
          x1: pct(x2),
          y1: scaled(scale, Math.max(spread2.low, scale.low)),
          x2: pct(x2),
          y2: scaled(scale, Math.min(spread2.high, scale.high)),
          class: "whisker"
        }
      ),
      /* @__PURE__ */ a3("circle", { cx: pct(x2), cy: y3, r: "4", class: "dot first" }),
      /* @__PURE__ */ a3("circle", { cx: pct(x2), cy: y3, r: "14", class: "hit" })
    ] });
    return href ? /* @__PURE__ */ a3("a", { class: "mark", href, "data-tip": tip, "aria-label": `${tip}: show them`, children: inside }) : /* @__PURE__ */ a3("g", { class: "mark", "data-tip": tip, children: inside });
  };
  var CurveChart = ({ points, binary }) => {
    const xs = points.map((_3, at) => PADDING + (100 - 2 * PADDING) * at / Math.max(1, points.length - 1));
    const best = points.map((point) => point.best);
    const scale = curveScale(best, binary);
    const name = binary ? "pass@k" : "best of k";
    const worst = points.map((point) => point.worst).filter((value) => value !== null);
    const hasWorst = binary && worst.length === points.length;
    const last = points.length - 1;
    const top = best[last]?.high ?? best[last]?.value ?? scale.high;
    return /* @__PURE__ */ a3(Plot, { label: `${name} against k`, title: "rollouts per task, k", height: HEIGHT, children: [
      /* @__PURE__ */ a3(Grid2, { scale, ticks: curveTicks(scale, binary) }),
      hasWorst && /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3(Line, { xs, ys: worst.map((value) => scaled(scale, value)), name: "second" }),
        worst.map((value, at) => /* @__PURE__ */ a3("g", { class: "mark", "data-tip": `pass^${points[at]?.k}: ${percent(value)}`, children: /* @__PURE__ */ a3("circle", { cx: pct(xs[at] ?? 0), cy: scaled(scale, value), r: "3", class: "dot second" }) }, at)),
        /* @__PURE__ */ a3("text", { x: pct(xs[last] ?? 0), y: scaled(scale, worst[last] ?? 0) - 10, class: "series second", "text-anchor": "end", children: "pass^k" })
      ] }),
      /* @__PURE__ */ a3(Line, { xs, ys: best.map((spread2) => scaled(scale, spread2.value ?? scale.low)), name: "first" }),
      points.map((point, at) => /* @__PURE__ */ a3(Point, { x: xs[at] ?? 0, spread: point.best, scale, tip: `pass@${point.k}: ${spreadText(point.best, binary)}` }, at)),
      /* @__PURE__ */ a3("text", { x: pct(xs[last] ?? 0), y: Math.max(scaled(scale, Math.min(top, scale.high)) - 9, 9), class: "series first", "text-anchor": "end", children: name }),
      points.map((point, at) => /* @__PURE__ */ a3("text", { x: pct(xs[at] ?? 0), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle", children: point.k }, at))
    ] });
  };
  var LengthChart = ({ bins, binary, link }) => {
    const width = 100 / bins.length;
    const xs = bins.map((_3, at) => (at + 0.5) * width);
    const scale = curveScale(bins.map((bin) => bin.reward), binary);
    const most = Math.max(1, ...bins.map((bin) => bin.rollouts));
    const counts = { low: 0, high: most, top: scale.bottom + 18, bottom: scale.bottom + 58 };
    return /* @__PURE__ */ a3(Plot, { label: "Mean reward by output tokens", title: "output tokens, from", height: counts.bottom + BOTTOM, children: [
      /* @__PURE__ */ a3(Grid2, { scale, ticks: curveTicks(scale, binary) }),
      /* @__PURE__ */ a3(Line, { xs, ys: bins.map((bin) => scaled(scale, bin.reward.value ?? scale.low)), name: "first" }),
      bins.map((bin, at) => {
        const tip = `${count(bin.low)} to ${count(bin.high)} tokens: ${spreadText(bin.reward, binary)}, ${count(bin.rollouts)} rollouts`;
        const y3 = Math.min(scaled(counts, bin.rollouts), counts.bottom - LEAST_PIXELS);
        return /* @__PURE__ */ a3("g", { children: [
          /* @__PURE__ */ a3("rect", { x: pct((xs[at] ?? 0) - width * 0.4), y: y3, width: pct(width * 0.8), height: counts.bottom - y3, class: "bar quiet" }),
          /* @__PURE__ */ a3(Point, { x: xs[at] ?? 0, spread: bin.reward, scale, tip, href: link(bin) })
        ] }, at);
      }),
      /* @__PURE__ */ a3(Labels, { texts: bins.map((bin) => compact(bin.low)), width, y: counts.bottom + 16 })
    ] });
  };
  var DenseLine = ({ values, start, label, title: title2 }) => {
    const known = values.filter((value) => value !== null);
    if (known.length < 2) return null;
    const height = 110;
    const scale = { low: Math.min(...known), high: Math.max(0, ...known), top: 8, bottom: height - BOTTOM };
    if (scale.low === scale.high) scale.low -= 1;
    let shape = "";
    values.forEach((value, at) => {
      if (value !== null) shape += `${at && values[at - 1] !== null ? "L" : "M"}${at} ${scaled(scale, value).toFixed(1)}`;
    });
    const last = Math.max(1, values.length - 1);
    const places = [0, 0.25, 0.5, 0.75, 1];
    return /* @__PURE__ */ a3(Plot, { label, title: title2, height, children: [
      /* @__PURE__ */ a3(Grid2, { scale, ticks: spanTicks(scale.low, scale.high).map((tick) => [tick, number(tick)]) }),
      /* @__PURE__ */ a3("svg", { x: "0", y: "0", width: "100%", height, viewBox: `0 0 ${last} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true", children: /* @__PURE__ */ a3("path", { d: shape, class: "dense" }) }),
      places.map((place) => /* @__PURE__ */ a3("text", { x: pct(100 * place), y: height - BOTTOM + 16, "text-anchor": place === 0 ? "start" : place === 1 ? "end" : "middle", children: count(start + Math.round(place * last)) }, place))
    ] });
  };
  var ShareBar = ({ parts: parts2 }) => {
    let x2 = 0;
    return /* @__PURE__ */ a3("svg", { class: "share", role: "img", "aria-label": parts2.map((part2) => part2.tip).join(", "), children: parts2.map((part2) => {
      const start = x2;
      x2 += part2.share;
      return part2.share > 0 ? /* @__PURE__ */ a3("rect", { x: pct(100 * start), y: "0", width: pct(100 * part2.share), height: "100%", class: `bar ${part2.tone}`, "data-tip": part2.tip }, part2.tip) : null;
    }) });
  };
  var Meter = ({ share, tone }) => /* @__PURE__ */ a3("svg", { class: "meter", "aria-hidden": "true", children: /* @__PURE__ */ a3("rect", { x: "0", y: "0", width: pct(100 * Math.min(1, Math.max(0, share))), height: "100%", class: `bar ${tone}` }) });
  var Strip = ({ rewards, height = 16 }) => {
    if (rewards.length === 0) return null;
    const low = Math.min(0, ...rewards);
    const high = Math.max(1, ...rewards);
    const step = Math.min(5, 128 / rewards.length);
    const shapes = ["", ""];
    rewards.forEach((reward, at) => {
      const share = (reward - low) / (high - low);
      const tall = reward <= 0 ? 2 : 3 + share * (height - 3);
      shapes[reward <= 0 ? 0 : 1] += `M${at * step} ${height}v${-tall}h${step * 0.76}v${tall}z`;
    });
    const text = `rewards ${rewards.slice(0, 8).map((reward) => number(reward)).join(", ")}${rewards.length > 8 ? ", …" : ""}`;
    return /* @__PURE__ */ a3("svg", { class: "strip", width: Math.ceil(step * rewards.length), height, role: "img", "aria-label": text, children: [
      /* @__PURE__ */ a3("path", { d: shapes[0], class: "nil" }),
      /* @__PURE__ */ a3("path", { d: shapes[1] })
    ] });
  };
  var isLogarithmic = (edges) => {
    const widths = edges.slice(1).map((edge, at) => edge - (edges[at] ?? 0));
    return (widths[widths.length - 1] ?? 0) > 2 * (widths[0] ?? 0);
  };
  var rounded = (value) => Number(value.toPrecision(6));
  var Brush = ({ histogram, label, chosen, onChoose }) => {
    const { edges, counts, all_counts: all } = histogram;
    const [drag, setDrag] = d2(null);
    const bins = counts.length;
    const most = Math.max(1, ...all);
    const height = 54;
    const isWhole = edges.every((edge) => Math.abs(edge % 1) === 0.5);
    const lowOf = (at) => isWhole ? Math.ceil(edges[at] ?? 0) : edges[at] ?? 0;
    const highOf = (at) => isWhole ? Math.floor(edges[at + 1] ?? 0) : edges[at + 1] ?? 0;
    const binAt = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      return Math.min(bins - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * bins)));
    };
    const rangeOf2 = (first, second) => {
      const [low2, high2] = [Math.min(first, second), Math.max(first, second)];
      return [lowOf(low2), highOf(high2)];
    };
    const inside = (at) => {
      if (drag) return at >= Math.min(...drag) && at <= Math.max(...drag);
      return !chosen || (edges[at + 1] ?? 0) > chosen[0] && (edges[at] ?? 0) < chosen[1] || (edges[at] ?? 0) === chosen[0];
    };
    const [low, high] = chosen ?? [null, null];
    const change = (which, text) => {
      if (text === "" && (which === 0 ? high : low) === null) return onChoose(null);
      const next = [low ?? lowOf(0), high ?? highOf(bins - 1)];
      next[which] = text === "" ? which === 0 ? lowOf(0) : highOf(bins - 1) : Number(text);
      return onChoose(next);
    };
    return /* @__PURE__ */ a3("fieldset", { class: "brush", children: [
      /* @__PURE__ */ a3("legend", { children: [
        label,
        isLogarithmic(edges) && /* @__PURE__ */ a3("span", { class: "scale", children: ", log scale" }),
        " ",
        histogram.missing > 0 && /* @__PURE__ */ a3("small", { children: [
          count(histogram.missing),
          " without"
        ] })
      ] }),
      /* @__PURE__ */ a3(
        "svg",
        {
          width: "100%",
          height,
          "aria-hidden": "true",
          onPointerDown: (event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag([binAt(event), binAt(event)]);
          },
          onPointerMove: (event) => drag && setDrag([drag[0], binAt(event)]),
          onPointerUp: (event) => {
            if (drag) onChoose(rangeOf2(drag[0], binAt(event)).map(rounded));
            setDrag(null);
          },
          onPointerCancel: () => setDrag(null),
          children: [
            counts.map((matching, at) => {
              const tall = (value) => value ? Math.max(LEAST_PIXELS, value / most * (height - 2)) : 0;
              const [back, front] = [tall(all[at] ?? 0), tall(matching)];
              const [x2, wide] = [pct(100 * at / bins + 8 / bins), pct(84 / bins)];
              const values = lowOf(at) === highOf(at) ? number(lowOf(at)) : `${number(lowOf(at))} to ${number(highOf(at))}`;
              const tip = `${values}: ${count(matching)} of ${count(all[at] ?? 0)}`;
              return /* @__PURE__ */ a3("g", { "data-tip": tip, class: inside(at) ? "in" : "out", children: [
                /* @__PURE__ */ a3("rect", { x: pct(100 * at / bins), y: "0", width: pct(100 / bins), height, class: "hit" }),
                /* @__PURE__ */ a3("rect", { x: x2, y: height - back, width: wide, height: back, class: "bar quiet" }),
                /* @__PURE__ */ a3("rect", { x: x2, y: height - front, width: wide, height: front, class: "bar plain front" })
              ] }, at);
            }),
            /* @__PURE__ */ a3("line", { x1: "0", x2: "100%", y1: height, y2: height, class: "base" })
          ]
        }
      ),
      /* @__PURE__ */ a3("div", { class: "ends", children: [
        /* @__PURE__ */ a3(
          "input",
          {
            type: "number",
            step: "any",
            "aria-label": `${label} from`,
            placeholder: number(lowOf(0)),
            value: low ?? "",
            onChange: (event) => change(0, event.currentTarget.value)
          }
        ),
        chosen ? /* @__PURE__ */ a3("button", { type: "button", class: "bare", onClick: () => onChoose(null), "aria-label": `clear the range of ${label}`, children: "clear" }) : /* @__PURE__ */ a3("span", { class: "quiet", children: "to" }),
        /* @__PURE__ */ a3(
          "input",
          {
            type: "number",
            step: "any",
            "aria-label": `${label} to`,
            placeholder: number(highOf(bins - 1)),
            value: high ?? "",
            onChange: (event) => change(1, event.currentTarget.value)
          }
        )
      ] })
    ] });
  };

  // src/query.ts
  var TERM = /-?(?:(?:[\w.][\w.-]*|"[^"]+")(?::|!=|<=|>=|=|<|>)(?:"[^"]*"|[^\s()]+)|"[^"]*"|[^\s()]+)|[()]/g;
  var termsOf = (query) => query.match(TERM) ?? [];
  var fieldOf = (term) => {
    const found = /^-?(?:([\w.][\w.-]*)|"([^"]+)")(?::|!=|<=|>=|=|<|>)/.exec(term);
    return found?.[1] ?? found?.[2] ?? null;
  };
  var nameOf = (field) => /^[^\W\d][\w.-]*$/u.test(field) ? field : `"${field}"`;
  var hasGroups = (query) => /[()]|\bor\b/.test(query);
  var withTerm = (query, field, term) => {
    const kept = hasGroups(query) ? [`(${query})`] : termsOf(query).filter((old) => fieldOf(old) !== field);
    return [...kept, ...term ? [term] : []].join(" ").trim();
  };
  var equals = (field, value) => `${nameOf(field)}:${/^[\w.+-]+$/.test(value) && !value.includes("..") ? value : `"${value.replaceAll('"', "")}"`}`;
  var between = (field, low, high) => `${nameOf(field)}:${low}..${high}`;
  var askedOf = (query, field) => {
    const start = `${nameOf(field)}:`;
    const term = termsOf(query).find((candidate) => candidate.startsWith(start));
    return term ? term.slice(start.length).replace(/^"|"$/g, "") : null;
  };

  // src/parts/query.tsx
  var setQuery = (query) => setParameters({ q: query || null, offset: null }, { replace: false });
  var EXAMPLES = {
    rollouts: ["outcome:scored reward<1", 'tokens.out>2000 -"boxed"', 'text:"division by zero"'],
    tasks: ["pass_rate:0.1..0.9", "solved:sometimes", "mean<0.5 sort:-std"],
    "compared tasks": ["delta<0"]
  };
  var QueryBox = ({ query, error, place }) => {
    const [text, setText] = d2(query);
    const input = T2(null);
    A2(() => setText(query), [query]);
    useKeys({ "/": () => input.current?.select() });
    const bad = error?.status === 400 ? error.reply : null;
    const fix = bad?.nearest && bad.position !== null && bad.position !== void 0 ? fixed2(query, bad.position, bad.nearest) : null;
    return /* @__PURE__ */ a3(
      "form",
      {
        class: "query",
        role: "search",
        onSubmit: (event) => {
          event.preventDefault();
          setQuery(text.trim());
        },
        children: [
          /* @__PURE__ */ a3("label", { class: "hidden", for: "query", children: [
            "Query of ",
            place
          ] }),
          /* @__PURE__ */ a3(
            "input",
            {
              id: "query",
              ref: input,
              type: "search",
              spellcheck: false,
              autocomplete: "off",
              placeholder: EXAMPLES[place]?.[0] ?? "",
              value: text,
              "aria-invalid": Boolean(bad),
              "aria-describedby": bad ? "query-error" : void 0,
              onInput: (event) => setText(event.currentTarget.value),
              onKeyDown: (event) => event.key === "Escape" && event.currentTarget.blur()
            }
          ),
          /* @__PURE__ */ a3("button", { type: "submit", children: "Filter" }),
          query && /* @__PURE__ */ a3("button", { type: "button", onClick: () => setQuery(""), children: "Clear" }),
          bad && /* @__PURE__ */ a3("div", { class: "query-error", id: "query-error", role: "alert", children: [
            bad.position !== null && bad.position !== void 0 && /* @__PURE__ */ a3("code", { children: [
              visible(query.slice(0, bad.position)),
              /* @__PURE__ */ a3("mark", { children: visible(query.slice(bad.position)) || " " })
            ] }),
            /* @__PURE__ */ a3("p", { children: [
              fullSentence(visible(bad.message ?? "")),
              " ",
              fullSentence(visible(bad.hint ?? "")),
              " ",
              fix && /* @__PURE__ */ a3("button", { type: "button", onClick: () => setQuery(fix), children: [
                "Use ",
                visible(bad.nearest ?? "")
              ] })
            ] })
          ] })
        ]
      }
    );
  };
  var fixed2 = (query, position, nearest) => query.slice(0, position) + query.slice(position).replace(/^[\w.]+/, nearest);
  var QueryExamples = ({ place }) => /* @__PURE__ */ a3("p", { class: "quiet", children: [
    "Try",
    " ",
    EXAMPLES[place]?.map((example) => /* @__PURE__ */ a3("button", { type: "button", class: "term", onClick: () => setQuery(example), children: example }, example))
  ] });
  var FacetList = ({ facet, query }) => {
    const asked = askedOf(query, facet.field);
    const most = Math.max(1, ...facet.values.map((value) => value.count));
    return /* @__PURE__ */ a3("section", { class: "facet", children: [
      /* @__PURE__ */ a3("h2", { children: facet.field }),
      /* @__PURE__ */ a3("ul", { children: facet.values.map((value) => {
        const active = asked === value.name || query.includes(value.query);
        return /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3(
          "button",
          {
            type: "button",
            "aria-pressed": active,
            title: visible(value.query),
            onClick: () => setQuery(withTerm(query, facet.field, active ? null : value.query)),
            children: [
              /* @__PURE__ */ a3("bdi", { class: "facet-name", dir: "auto", children: visibleLine(value.name, 60) || "(empty)" }),
              /* @__PURE__ */ a3("span", { class: "n", children: count(value.count) }),
              /* @__PURE__ */ a3("svg", { class: "facet-bar", "aria-hidden": "true", children: /* @__PURE__ */ a3("rect", { x: "0", y: "0", height: "100%", width: `${100 * value.count / most}%` }) })
            ]
          }
        ) }, value.name);
      }) }),
      facet.others > 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
        count(facet.others),
        " other values"
      ] })
    ] });
  };

  // src/pages/diff.tsx
  var placeOfReference = (text) => {
    const [run = "", task = "-", rollout = "-", row] = text.split("/");
    return `/r/${run}/t/${task}/${rollout}${row ? `?row=${row}` : ""}`;
  };
  var placeOfItem = (place, at) => `${place}${place.includes("?") ? "&" : "?"}item=${at}`;
  var closeDiff = () => setParameters({ diff: null, from: null, equal: null }, { replace: false });
  var DiffView = ({ search }) => {
    const pair2 = search.get("diff") ?? "";
    const [a4 = "", b2 = ""] = pair2.split(",");
    const start = Number(search.get("from") ?? 0);
    const all = search.get("equal") === "true";
    const goTo = (item) => setParameters({ from: item > 0 ? String(item) : null });
    const reply = useReply(request("diff", {}, { a: a4, b: b2, start }));
    useKeys({ Escape: closeDiff, d: closeDiff });
    useRowKeys();
    return /* @__PURE__ */ a3(Panel, { reply, class: "diff first", children: (diff) => /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h1", { class: "hidden", children: "Difference of two rollouts" }),
      /* @__PURE__ */ a3("div", { class: "diff-head", children: [
        /* @__PURE__ */ a3(Side, { name: "A", page: diff.a, reference: a4, run: diff.runs[0] }),
        /* @__PURE__ */ a3(Side, { name: "B", page: diff.b, reference: b2, run: diff.runs[1] })
      ] }),
      diff.expected.length > 0 && /* @__PURE__ */ a3("p", { class: "expected", children: [
        "Expected answer:",
        " ",
        diff.expected.map((text, at) => /* @__PURE__ */ a3("span", { children: [
          at > 0 && " or ",
          /* @__PURE__ */ a3(Theirs, { text, limit: 200 })
        ] }, at))
      ] }),
      /* @__PURE__ */ a3("p", { class: "table-tools", children: [
        /* @__PURE__ */ a3(FirstToken, { diff }),
        /* @__PURE__ */ a3("label", { children: [
          /* @__PURE__ */ a3("input", { type: "checkbox", checked: all, onChange: () => setParameters({ equal: all ? null : "true" }) }),
          " Show what is equal"
        ] }),
        /* @__PURE__ */ a3("button", { type: "button", onClick: () => setParameters({ diff: `${b2},${a4}`, from: null }), children: "Swap" }),
        /* @__PURE__ */ a3("button", { type: "button", onClick: closeDiff, children: "Close" })
      ] }),
      /* @__PURE__ */ a3(Items, { items: diff.items, all, places: [placeOfReference(a4), placeOfReference(b2)] }),
      diff.total > diff.limit && /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": "Pages of the difference", children: [
        /* @__PURE__ */ a3("button", { type: "button", disabled: start === 0, onClick: () => goTo(start - diff.limit), children: "Previous" }),
        /* @__PURE__ */ a3("p", { children: [
          "items ",
          diff.start + 1,
          " to ",
          diff.start + diff.items.length,
          " of ",
          diff.total
        ] }),
        /* @__PURE__ */ a3("button", { type: "button", disabled: diff.start + diff.items.length >= diff.total, onClick: () => goTo(start + diff.limit), children: "Next" })
      ] })
    ] }) });
  };
  var Side = ({ name, page: page2, reference: reference2, run }) => /* @__PURE__ */ a3("div", { class: `side side-${name.toLowerCase()}`, children: [
    /* @__PURE__ */ a3("h2", { children: [
      name,
      ": ",
      /* @__PURE__ */ a3("a", { href: placeOfReference(reference2), children: visible(keyText(page2.task, page2.rollout, page2.row)) }),
      run && /* @__PURE__ */ a3("small", { children: [
        " ",
        "of ",
        /* @__PURE__ */ a3(Theirs, { text: run, limit: 60 })
      ] })
    ] }),
    /* @__PURE__ */ a3("p", { class: "quiet", children: [
      page2.reward === null ? visible(page2.outcome) : `reward ${decimal(page2.reward)}`,
      page2.model && `, ${visible(page2.model)}`,
      page2.truncated && ", cut off"
    ] })
  ] });
  var FirstToken = ({ diff }) => {
    const first = diff.first_token;
    const same = diff.items.length > 0 && diff.items.length === diff.total && diff.items.every((item) => item.same);
    return /* @__PURE__ */ a3("span", { class: "quiet", children: [
      same && "The conversations are equal. ",
      first && `Token ids differ first in turn ${first.turn}, position ${first.position}: ${first.a ?? "none"} and ${first.b ?? "none"}.`
    ] });
  };
  var Items = ({ items, all, places }) => {
    const parts2 = [];
    for (const item of items) {
      const last = parts2[parts2.length - 1];
      if (all || !item.same) parts2.push(item);
      else if (typeof last === "number") parts2[parts2.length - 1] = last + 1;
      else parts2.push(1);
    }
    return /* @__PURE__ */ a3("ol", { class: "diff-items", children: parts2.map((part2, at) => /* @__PURE__ */ a3("li", { children: typeof part2 === "number" ? /* @__PURE__ */ a3("p", { class: "equal", children: part2 === 1 ? "1 equal item" : `${part2} equal items` }) : /* @__PURE__ */ a3(Item, { item: part2, places }) }, at)) });
  };
  var title = (item) => `${item.part === "prompt" ? "prompt, " : ""}${item.kind}${item.name ? ` ${item.name}` : ""}`;
  var Item = ({ item, places }) => {
    const { a: a4, b: b2, pieces } = item;
    const shown = a4 ?? b2;
    if (!shown) return null;
    if (a4 && b2) {
      return /* @__PURE__ */ a3("section", { class: "diff-item", "data-row": true, tabIndex: -1, children: [
        /* @__PURE__ */ a3("h3", { children: [
          visible(title(a4)),
          " ",
          item.same && /* @__PURE__ */ a3("small", { children: "equal" }),
          " ",
          item.by_lines && /* @__PURE__ */ a3("small", { children: "by lines: words took too long" })
        ] }),
        item.same ? /* @__PURE__ */ a3("pre", { class: "theirs", dir: "auto", children: /* @__PURE__ */ a3(Coloured, { text: a4.head }) }) : /* @__PURE__ */ a3("div", { class: "diff-pair", children: [
          /* @__PURE__ */ a3(Pieces, { pieces, side: "-" }),
          /* @__PURE__ */ a3(Pieces, { pieces, side: "+" })
        ] })
      ] });
    }
    const side = a4 ? "A" : "B";
    return /* @__PURE__ */ a3("section", { class: "diff-item", "data-row": true, tabIndex: -1, children: [
      /* @__PURE__ */ a3("h3", { children: [
        visible(title(shown)),
        " ",
        /* @__PURE__ */ a3("small", { children: [
          "only in ",
          side
        ] }),
        " ",
        /* @__PURE__ */ a3("a", { href: placeOfItem(a4 ? places[0] : places[1], shown.at), children: shown.size > shown.head.length ? `all ${bytes(shown.size)}` : "in its place" })
      ] }),
      /* @__PURE__ */ a3("div", { class: "diff-pair", children: [
        side === "B" && /* @__PURE__ */ a3("p", { class: "nothing", children: "nothing here" }),
        /* @__PURE__ */ a3("pre", { class: "theirs alone", dir: "auto", children: /* @__PURE__ */ a3(Coloured, { text: shown.head }) }),
        side === "A" && /* @__PURE__ */ a3("p", { class: "nothing", children: "nothing here" })
      ] })
    ] });
  };
  var Pieces = ({ pieces, side }) => {
    let colours = "";
    return /* @__PURE__ */ a3("pre", { class: "theirs", dir: "auto", tabIndex: 0, role: "region", "aria-label": side === "-" ? "A" : "B", children: pieces.filter((piece) => piece.op === "=" || piece.op === side).map((piece, at) => {
      const text = /* @__PURE__ */ a3(Coloured, { text: colours + piece.text }, at);
      colours += coloursOf(piece.text);
      return piece.op === "=" ? text : /* @__PURE__ */ a3("mark", { class: "only", children: text }, at);
    }) });
  };

  // src/pages/compare.tsx
  var SIZE = 100;
  var ComparePage = ({ a: a4, b: b2, search }) => {
    useTitle("Compare");
    useRowKeys();
    const pair2 = search.get("diff");
    const flags = { unmatched: search.get("unmatched"), different_rows: search.get("different_rows") };
    const reply = useReply(request("compare", { a: a4, b: b2 }, flags));
    const [query, sort] = [search.get("q") ?? "", search.get("sort") ?? ""];
    const offset = Number(search.get("offset") ?? 0);
    const tasks = useReply(request("comparedTasks", { a: a4, b: b2 }, { ...flags, q: query, sort, offset, limit: SIZE }));
    const worst = offset === 0 && !sort && !query ? tasks.data?.tasks[0] : void 0;
    const worstPair = worst && pairOf(worst, a4, b2, true);
    useKeys(pair2 ? {} : { Escape: () => go("/"), d: worstPair ? () => setParameters({ diff: worstPair }, { replace: false }) : void 0 });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("nav", { class: "parts", "aria-label": "Where you are", children: [
        /* @__PURE__ */ a3("ol", { class: "crumbs", children: [
          /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: "/", children: "Runs" }) }),
          /* @__PURE__ */ a3("li", { "aria-current": "page", children: "Compare" })
        ] }),
        /* @__PURE__ */ a3("ul", { children: /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: `/c/${b2}/${a4}${flagsOf(search)}`, children: "Swap A and B" }) }) })
      ] }),
      /* @__PURE__ */ a3("main", { id: "main", tabIndex: -1, children: pair2 ? /* @__PURE__ */ a3(DiffView, { search }, pair2) : /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3("h1", { class: "small", children: "Is B better than A?" }),
        /* @__PURE__ */ a3(Panel, { reply: reply.error ? { ...reply, data: null } : reply, class: "first", children: (comparison) => /* @__PURE__ */ a3(Said, { comparison }) }),
        reply.error && /* @__PURE__ */ a3(Ways, { hint: reply.error.reply.hint ?? "" }),
        reply.data && !reply.error && /* @__PURE__ */ a3(Tasks, { tasks, query, sort, a: a4, b: b2 })
      ] }) })
    ] });
  };
  var Ways = ({ hint }) => /* @__PURE__ */ a3("p", { class: "links", children: [
    hint.includes("--allow-unmatched") && /* @__PURE__ */ a3("a", { href: placeWith({ unmatched: "true" }), children: "Leave these tasks out" }),
    hint.includes("--allow-different-rows") && /* @__PURE__ */ a3("a", { href: placeWith({ different_rows: "true" }), children: "Compare them anyway" })
  ] });
  var Tasks = ({ tasks, query, sort, a: a4, b: b2 }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3("h2", { class: "section", children: "Tasks, the largest regressions first" }),
    /* @__PURE__ */ a3(QueryBox, { query, error: tasks.error, place: "compared tasks" }),
    tasks.error && tasks.error.status !== 400 && /* @__PURE__ */ a3(ErrorBox, { error: tasks.error }),
    tasks.data?.total === 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: "No task has a score in both runs." }),
    tasks.data && tasks.data.total > 0 && tasks.error?.status !== 400 && /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(Pages, { offset: tasks.data.offset, size: SIZE, matches: tasks.data.matches, total: tasks.data.total, noun: "tasks" }),
      /* @__PURE__ */ a3(Table, { label: "Compared tasks", sort, heads: HEADS, children: tasks.data.tasks.map((task) => /* @__PURE__ */ a3(TaskLine, { task, a: a4, b: b2 }, task.task)) })
    ] })
  ] });
  var flagsOf = (search) => {
    const kept = new URLSearchParams([...search].filter(([name]) => name === "unmatched" || name === "different_rows"));
    return kept.size ? `?${kept}` : "";
  };
  var chance = (value) => value !== null && value < 5e-4 ? "< 0.001" : decimal(value);
  var HEADS = [
    { name: "task", label: "Task", sortable: true },
    { name: "prompt", label: "Prompt", class: "prompt" },
    { name: "a.rewards", label: "A" },
    { name: "a.mean", label: "Mean A", numeric: true, sortable: true },
    { name: "b.rewards", label: "B" },
    { name: "b.mean", label: "Mean B", numeric: true, sortable: true },
    { name: "delta", label: "B − A", numeric: true, sortable: true },
    { name: "diff", label: "Read" }
  ];
  var pairOf = (task, a4, b2, isWorse) => {
    const end = (list, best) => best ? list[0] : list[list.length - 1];
    const [left, right] = [end(task.a_rollouts, isWorse), end(task.b_rollouts, !isWorse)];
    if (left === void 0 || right === void 0) return null;
    return `${reference(a4, task.task, left)},${reference(b2, task.task, right)}`;
  };
  var TaskLine = ({ task, a: a4, b: b2 }) => {
    const isWorse = (task.delta ?? 0) < 0;
    const pair2 = pairOf(task, a4, b2, isWorse);
    const name = visible(String(task.task));
    return /* @__PURE__ */ a3("tr", { "data-row": true, children: [
      /* @__PURE__ */ a3("th", { scope: "row", class: "name", children: pair2 ? /* @__PURE__ */ a3("a", { href: placeWith({ diff: pair2 }), "aria-label": `${name}: both transcripts`, children: name }) : name }),
      /* @__PURE__ */ a3("td", { class: "prompt", children: /* @__PURE__ */ a3(Theirs, { text: task.prompt }) }),
      /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Strip, { rewards: task.a_rewards }) }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(task.a) }),
      /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Strip, { rewards: task.b_rewards }) }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(task.b) }),
      /* @__PURE__ */ a3("td", { class: `n ${isWorse ? "bad" : ""}`, children: signed(task.delta) }),
      /* @__PURE__ */ a3("td", { class: "links nowrap", children: [
        /* @__PURE__ */ a3("a", { href: taskPlace(a4, task.task), "aria-label": `A: group of task ${name}`, children: "A" }),
        /* @__PURE__ */ a3("a", { href: taskPlace(b2, task.task), "aria-label": `B: group of task ${name}`, children: "B" }),
        pair2 && /* @__PURE__ */ a3("a", { href: placeWith({ diff: pair2 }), "aria-label": `diff of task ${name}`, children: "diff" })
      ] })
    ] });
  };
  var Said = ({ comparison }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3("p", { class: `verdict-line ${comparison.passed ? "" : "bad"}`, children: [
      sentence(visible(comparison.verdict)),
      " ",
      /* @__PURE__ */ a3("small", { children: [
        "A is ",
        /* @__PURE__ */ a3(RunName, { side: comparison.a, other: comparison.b }),
        ", B is ",
        /* @__PURE__ */ a3(RunName, { side: comparison.b, other: comparison.a }),
        "."
      ] })
    ] }),
    /* @__PURE__ */ a3("div", { class: "sides", children: [
      /* @__PURE__ */ a3(Side2, { name: "A", side: comparison.a }),
      /* @__PURE__ */ a3(Side2, { name: "B", side: comparison.b }),
      /* @__PURE__ */ a3("section", { children: [
        /* @__PURE__ */ a3("h2", { children: amount(comparison.tasks, "paired task") }),
        /* @__PURE__ */ a3("p", { children: [
          "B is better in ",
          /* @__PURE__ */ a3("b", { children: count(comparison.better) }),
          ", worse in ",
          /* @__PURE__ */ a3("b", { children: count(comparison.worse) }),
          ", equal in ",
          /* @__PURE__ */ a3("b", { children: count(comparison.equal) }),
          "."
        ] }),
        comparison.unscored > 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
          amount(comparison.unscored, "task"),
          " without a score on one side."
        ] })
      ] })
    ] }),
    /* @__PURE__ */ a3(Metrics, { metrics: comparison.metrics }),
    /* @__PURE__ */ a3(MeansNote, { comparison }),
    /* @__PURE__ */ a3(Notes, { texts: comparison.settings, title: "Setting." }),
    /* @__PURE__ */ a3(Notes, { texts: comparison.notices }),
    comparison.command && /* @__PURE__ */ a3(Command, { name: "The command that says the same", text: comparison.command })
  ] });
  var MeansNote = ({ comparison: { a: a4, b: b2, metrics } }) => {
    const reward = metrics.find((metric) => metric.name === "reward");
    const [ofA, ofB] = [decimal(a4.run.mean_reward.value), decimal(b2.run.mean_reward.value)];
    if (!reward || ofA === decimal(reward.a) && ofB === decimal(reward.b)) return null;
    return /* @__PURE__ */ a3("p", { class: "quiet", children: [
      "These are means over the paired tasks, in which each task counts alike. Over rollouts, as on the pages of the runs, the mean rewards are ",
      ofA,
      " and ",
      ofB,
      "."
    ] });
  };
  var RunName = ({ side, other }) => /* @__PURE__ */ a3(Theirs, { text: side.run.name === other.run.name ? side.run.path : side.run.name, limit: 80 });
  var Side2 = ({ name, side }) => /* @__PURE__ */ a3("section", { children: [
    /* @__PURE__ */ a3("h2", { children: [
      name,
      ":",
      " ",
      /* @__PURE__ */ a3("a", { href: runPlace(side.run.id), children: /* @__PURE__ */ a3(Theirs, { text: side.run.name, limit: 60 }) }),
      side.run.model && /* @__PURE__ */ a3("span", { class: "quiet", children: [
        " ",
        /* @__PURE__ */ a3(Theirs, { text: side.run.model, limit: 60 })
      ] })
    ] }),
    /* @__PURE__ */ a3("p", { class: "quiet", children: [
      /* @__PURE__ */ a3(FilePath, { text: side.run.path }),
      ", ",
      moment(side.run.started_at)
    ] }),
    /* @__PURE__ */ a3("p", { children: [
      count(side.scored),
      " of ",
      count(side.requested),
      " scored, ",
      amount(side.tasks, "task"),
      side.failures.map((failure) => `, ${count(failure.count)} ${visible(failure.name)}`),
      side.unaccounted > 0 && `, ${count(side.unaccounted)} without a trace`
    ] }),
    /* @__PURE__ */ a3(Meter, { share: side.requested ? side.scored / side.requested : 0, tone: "plain" })
  ] });
  var spread = (value) => value.low === null || value.high === null ? "" : `${signed(value.low)} to ${signed(value.high)}`;
  var Metrics = ({ metrics }) => /* @__PURE__ */ a3(Scrolling, { label: "Compared metrics", children: /* @__PURE__ */ a3("table", { children: [
    /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "col", children: "Metric" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Tasks" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "A" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "B" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "B − A, 95 %" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "p" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "p adjusted" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Detectable from" })
    ] }) }),
    /* @__PURE__ */ a3("tbody", { children: metrics.map((metric) => /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "row", children: /* @__PURE__ */ a3(Theirs, { text: metric.name, limit: 60 }) }),
      /* @__PURE__ */ a3("td", { class: "n", children: count(metric.tasks) }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(metric.a) }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(metric.b) }),
      /* @__PURE__ */ a3("td", { class: "n", children: [
        signed(metric.difference.value),
        /* @__PURE__ */ a3("small", { children: spread(metric.difference) })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: chance(metric.p_value) }),
      /* @__PURE__ */ a3("td", { class: "n", children: chance(metric.p_adjusted) }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(metric.minimum_detectable) })
    ] }, metric.name)) })
  ] }) });

  // src/pages/failures.tsx
  var FailuresPage = ({ view }) => {
    useRowKeys();
    useKeys({ Escape: () => go(runPlace(view.id)) });
    const reply = useReply(request("failures", { run: view.id }), { version: view.version });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h1", { class: "small", children: "Failures" }),
      /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (tree) => /* @__PURE__ */ a3($, { children: [
        tree.absent && /* @__PURE__ */ a3("p", { class: "lead", children: visible(tree.absent) }),
        tree.nodes.length > 0 && /* @__PURE__ */ a3("p", { class: "lead", children: [
          amount(tree.attempts, "failed attempt"),
          ". A failure is not a reward of 0: it counts in no mean."
        ] }),
        tree.consequences.map((text) => /* @__PURE__ */ a3("p", { children: visible(text) }, text)),
        /* @__PURE__ */ a3("div", { class: "failure-tree", children: tree.nodes.map((node) => /* @__PURE__ */ a3(Node, { node, parent: null, run: view.id, isOpen: tree.nodes.length <= 4 }, node.name)) }),
        tree.findings.length > 0 && /* @__PURE__ */ a3($, { children: [
          /* @__PURE__ */ a3("h2", { class: "section", children: "What the doctor says" }),
          /* @__PURE__ */ a3("ul", { class: "doctor", children: tree.findings.map((finding, at) => /* @__PURE__ */ a3(Finding, { finding, run: view.id }, at)) })
        ] })
      ] }) })
    ] });
  };
  var LEVELS = { class: "", layer: "layer ", cause: "cause: ", message: "" };
  var Node = ({ node, parent, run, isOpen }) => /* @__PURE__ */ a3("details", { class: `node ${node.level}`, open: isOpen, children: [
    /* @__PURE__ */ a3("summary", { "data-row": true, children: [
      /* @__PURE__ */ a3("span", { class: "node-name", children: [
        LEVELS[node.level],
        node.level === "message" ? /* @__PURE__ */ a3(Theirs, { text: node.name || "(no message)", limit: 240 }) : /* @__PURE__ */ a3("b", { children: visible(node.name) || (node.level === "cause" ? "not known" : "not recorded") })
      ] }),
      node.attempts !== parent?.attempts && /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3("span", { class: "n", children: amount(node.attempts, "attempt") }),
        /* @__PURE__ */ a3("span", { class: "n", children: amount(node.rollouts, "rollout") }),
        /* @__PURE__ */ a3("span", { class: "n", children: node.without_score > 0 ? `${count(node.without_score)} without a score` : "all scored later" })
      ] })
    ] }),
    /* @__PURE__ */ a3("div", { class: "node-body", children: [
      node.likely_cause && node.likely_cause !== parent?.likely_cause && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3(Said2, { text: node.likely_cause }) }),
      node.next_action && node.next_action !== parent?.next_action && /* @__PURE__ */ a3("p", { children: [
        /* @__PURE__ */ a3("b", { children: "Next: " }),
        /* @__PURE__ */ a3(Said2, { text: node.next_action })
      ] }),
      node.query && node.level !== "message" && node.attempts !== parent?.attempts && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts", node.query), children: "All its rollouts" }) }),
      node.nodes.map((inner) => /* @__PURE__ */ a3(Node, { node: inner, parent: node, run, isOpen: node.nodes.length <= 3 }, `${inner.level} ${inner.name}`)),
      node.others > 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
        "and ",
        amount(node.others, "attempt"),
        " with rarer messages"
      ] }),
      node.rows.length > 0 && /* @__PURE__ */ a3("p", { class: "links", children: [
        node.rows.map((row) => /* @__PURE__ */ a3("a", { href: rolloutPlace(run, row.task, row.rollout, { row: row.row }), "data-tip": row.kept ? "its answer was kept" : `attempt ${row.attempt}`, children: [
          visible(keyText(row.task, row.rollout, row.row)),
          row.kept && " (answer)"
        ] }, `${row.row} ${row.attempt}`)),
        node.attempts > node.rows.length && /* @__PURE__ */ a3("span", { class: "quiet", children: [
          "and ",
          count(node.attempts - node.rows.length),
          " more"
        ] })
      ] })
    ] })
  ] });
  var Said2 = ({ text }) => /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", children: /* @__PURE__ */ a3(WithOptions, { text: sentence(visibleLine(text, 1e3)) }) });
  var Finding = ({ finding, run }) => /* @__PURE__ */ a3("li", { class: finding.severity, children: [
    /* @__PURE__ */ a3("p", { children: [
      /* @__PURE__ */ a3("span", { class: `severity ${finding.severity}`, children: finding.severity }),
      " ",
      /* @__PURE__ */ a3("b", { children: /* @__PURE__ */ a3(Theirs, { text: finding.symptom, limit: 500 }) }),
      " ",
      /* @__PURE__ */ a3("span", { class: "quiet", children: [
        visible(finding.layer),
        ", ",
        visible(finding.cause)
      ] })
    ] }),
    finding.likely_cause && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3(Said2, { text: finding.likely_cause }) }),
    finding.next_action && /* @__PURE__ */ a3("p", { children: [
      /* @__PURE__ */ a3("b", { children: "Next: " }),
      /* @__PURE__ */ a3(Said2, { text: finding.next_action })
    ] }),
    finding.task !== null && finding.rollout !== null && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3("a", { href: rolloutPlace(run, finding.task, finding.rollout), children: visible(keyText(finding.task, finding.rollout)) }) }),
    finding.evidence.length > 0 && /* @__PURE__ */ a3("details", { children: [
      /* @__PURE__ */ a3("summary", { children: "Evidence" }),
      finding.evidence.map((entry, at) => /* @__PURE__ */ a3("div", { children: [
        /* @__PURE__ */ a3("p", { class: "quiet", children: /* @__PURE__ */ a3(Theirs, { text: entry.name }) }),
        /* @__PURE__ */ a3("pre", { class: "theirs", dir: "auto", children: visible(entry.value) })
      ] }, at))
    ] })
  ] });

  // src/markdown.tsx
  var INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|__[^_\n]+__|\*[^*\s][^*\n]*\*)/;
  var inline = (text) => text.split(INLINE).map((part2, at) => {
    if (at % 2 === 0) return visible(part2);
    if (part2.startsWith("`")) return /* @__PURE__ */ a3("code", { children: visible(part2.slice(1, -1)) }, at);
    if (part2.startsWith("**") || part2.startsWith("__")) return /* @__PURE__ */ a3("strong", { children: visible(part2.slice(2, -2)) }, at);
    return /* @__PURE__ */ a3("em", { children: visible(part2.slice(1, -1)) }, at);
  });
  var HEADING = /^(#{1,6})\s+(.*)$/;
  var ENTRY = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/;
  var Markdown = ({ text }) => {
    const blocks = [];
    const lines = text.split("\n");
    for (let at = 0; at < lines.length; ) {
      const line = lines[at] ?? "";
      if (/^\s*(```|~~~)/.test(line)) {
        const fence = line.trim().slice(0, 3);
        const end = lines.findIndex((other, place) => place > at && other.trim().startsWith(fence));
        const stop = end < 0 ? lines.length : end;
        blocks.push(/* @__PURE__ */ a3("pre", { children: visible(lines.slice(at + 1, stop).join("\n")) }, at));
        at = stop + 1;
      } else if (HEADING.test(line)) {
        blocks.push(
          /* @__PURE__ */ a3("p", { class: "md-heading", children: inline(HEADING.exec(line)?.[2] ?? "") }, at)
        );
        at += 1;
      } else if (ENTRY.test(line)) {
        const start = at;
        while (at < lines.length && ENTRY.test(lines[at] ?? "")) at += 1;
        blocks.push(
          /* @__PURE__ */ a3("ul", { class: "md-list", children: lines.slice(start, at).map((entry, place) => /* @__PURE__ */ a3("li", { children: inline(ENTRY.exec(entry)?.[1] ?? "") }, place)) }, start)
        );
      } else if (!line.trim()) {
        at += 1;
      } else {
        const start = at;
        while (at < lines.length && (lines[at] ?? "").trim() && !/^\s*(```|~~~|#{1,6}\s)/.test(lines[at] ?? "") && !ENTRY.test(lines[at] ?? "")) at += 1;
        blocks.push(/* @__PURE__ */ a3("p", { children: inline(lines.slice(start, at).join("\n")) }, start));
      }
    }
    return /* @__PURE__ */ a3("div", { class: "theirs markdown", dir: "auto", children: blocks });
  };

  // node_modules/@tanstack/virtual-core/dist/esm/lazy-measurements.js
  function getMeasurementKey(item) {
    return typeof item === "object" ? item.key : item;
  }
  function createLazyMeasurementsView(cache, flat) {
    const count2 = cache.length;
    return new Proxy(cache, {
      get(target, prop, receiver) {
        if (typeof prop === "string") {
          const c3 = prop.charCodeAt(0);
          if (c3 >= 48 && c3 <= 57) {
            const i3 = +prop;
            if (Number.isInteger(i3) && i3 >= 0 && i3 < count2) {
              let v3 = target[i3];
              if (typeof v3 !== "object") {
                const s3 = flat[i3 * 2];
                v3 = target[i3] = {
                  index: i3,
                  key: v3,
                  start: s3,
                  size: flat[i3 * 2 + 1],
                  end: s3 + flat[i3 * 2 + 1],
                  lane: 0
                };
              }
              return v3;
            }
          }
          if (prop === "length") return count2;
        }
        return Reflect.get(target, prop, receiver);
      }
    });
  }

  // node_modules/@tanstack/virtual-core/dist/esm/utils.js
  function memo(getDeps, fn, opts) {
    let deps = opts.initialDeps ?? [];
    let result;
    let isInitial = true;
    function memoizedFunction() {
      var _a;
      const debugEnabled = !!opts.key && !!((_a = opts.debug) == null ? void 0 : _a.call(opts));
      let depTime = 0;
      if (debugEnabled) depTime = Date.now();
      const newDeps = getDeps();
      const depsChanged = newDeps.length !== deps.length || newDeps.some((dep, index) => deps[index] !== dep);
      if (!depsChanged) {
        return result;
      }
      deps = newDeps;
      let resultTime = 0;
      if (debugEnabled) resultTime = Date.now();
      result = fn(...newDeps);
      if (debugEnabled) {
        const depEndTime = Math.round((Date.now() - depTime) * 100) / 100;
        const resultEndTime = Math.round((Date.now() - resultTime) * 100) / 100;
        const resultFpsPercentage = resultEndTime / 16;
        const pad = (str, num) => {
          str = String(str);
          while (str.length < num) {
            str = " " + str;
          }
          return str;
        };
        console.info(
          `%c⏱ ${pad(resultEndTime, 5)} /${pad(depEndTime, 5)} ms`,
          `
            font-size: .6rem;
            font-weight: bold;
            color: hsl(${Math.max(
            0,
            Math.min(120 - 120 * resultFpsPercentage, 120)
          )}deg 100% 31%);`,
          opts == null ? void 0 : opts.key
        );
      }
      if ((opts == null ? void 0 : opts.onChange) && !(isInitial && opts.skipInitialOnChange)) {
        opts.onChange(result);
      }
      isInitial = false;
      return result;
    }
    memoizedFunction.updateDeps = (newDeps) => {
      deps = newDeps;
    };
    return memoizedFunction;
  }
  function notUndefined(value, msg) {
    if (value === void 0) {
      throw new Error(`Unexpected undefined${msg ? `: ${msg}` : ""}`);
    } else {
      return value;
    }
  }
  var approxEqual = (a4, b2) => Math.abs(a4 - b2) < 1.01;
  var debounce = (targetWindow, fn, ms) => {
    let timeoutId;
    return Object.assign(
      function(...args) {
        targetWindow.clearTimeout(timeoutId);
        timeoutId = targetWindow.setTimeout(() => fn.apply(this, args), ms);
      },
      {
        // The handle is closure-local, so a caller that has already
        // unsubscribed has no way to stop a queued call. Teardown paths use
        // this to drop the pending invocation instead of letting it land.
        cancel: () => {
          targetWindow.clearTimeout(timeoutId);
        }
      }
    );
  };

  // node_modules/@tanstack/virtual-core/dist/esm/scroll-classifier.js
  function classifyScrollEvent({
    offset,
    isScrolling,
    elementMax,
    holdOffset,
    scrollOffset,
    pendingWrite,
    clampedMaxAtWrite
  }) {
    var _a;
    if (isScrolling && pendingWrite === null && offset === scrollOffset) {
      return "spurious";
    }
    if (pendingWrite !== null && Math.abs(offset - pendingWrite.target) < 1.5) {
      return "readBack";
    }
    if (pendingWrite !== null && !pendingWrite.smooth && elementMax !== null && pendingWrite.target > elementMax + holdOffset + 0.5 && Math.abs(offset - (elementMax + holdOffset)) < 1.5) {
      return "clampedReadBack";
    }
    if (pendingWrite !== null && !pendingWrite.smooth && ((_a = pendingWrite.lowMaxes) == null ? void 0 : _a.some((max) => Math.abs(offset - max) < 1.5))) {
      return "clampedReadBack";
    }
    if (clampedMaxAtWrite !== null && Math.abs(offset - clampedMaxAtWrite) < 1.5) {
      return "clampedEcho";
    }
    return "external";
  }
  var isAnimating = (phase) => phase === "smooth" || phase === "smoothFinishing";
  function externalRetiresCommand({
    kind,
    offset,
    command,
    target
  }) {
    return kind !== "spurious" && kind !== "readBack" && // Our own write, clamped (`clampedReadBack`, #1310): the command is not
    // retired by it, and reconcile retargets below the new max.
    kind !== "clampedReadBack" && (command == null ? void 0 : command.index) != null && // Nothing has been written for a command waiting for the tail; these
    // are the fling's events.
    command.phase !== "queued" && // A non-smooth write lands at once, so any other scroll event is the
    // user's, even before reconcile saw the target reached (the target may
    // keep moving, or iOS ignored the write under a finger). A write the
    // browser clamped because the sizer hasn't grown yet reads back at the
    // max, which is also where the fresh target clamps, so the check below
    // keeps it reconciling (#1294). While a smooth scroll's animation may
    // still report, its events look like a user's, so it yields only once it
    // has landed.
    !isAnimating(command.phase) && !approxEqual(offset, command.lastTargetOffset) && !approxEqual(offset, target()) && // A compensation write's clamped echo (#1258) keeps the command. The
    // order is deliberate, not tidiness: this clause stays after `target()`
    // (and `clampedReadBack` before it) because `target()` can rebuild the
    // measurements, so it must run for exactly the events it always did.
    kind !== "clampedEcho";
  }
  var FLING_WINDOW_MS = 40;
  function flingSpedUp(samples) {
    const last = samples[samples.length - 1];
    if (last === void 0) return false;
    let j2 = samples.length - 2;
    while (j2 >= 0 && last.t - samples[j2].t < FLING_WINDOW_MS) j2--;
    if (j2 < 0) return false;
    const mid = samples[j2];
    let k2 = j2 - 1;
    while (k2 >= 0 && mid.t - samples[k2].t < FLING_WINDOW_MS) k2--;
    if (k2 < 0) return false;
    const first = samples[k2];
    const recent = (last.offset - mid.offset) / (last.t - mid.t);
    const before = (mid.offset - first.offset) / (mid.t - first.t);
    return recent * before >= 0 && Math.abs(recent) >= 2 * Math.abs(before) && Math.abs(recent) - Math.abs(before) >= 0.8;
  }
  function flingCaught(samples) {
    const last = samples[samples.length - 1];
    if (last === void 0) return false;
    let j2 = samples.length - 2;
    while (j2 >= 0 && last.t - samples[j2].t < FLING_WINDOW_MS) j2--;
    if (j2 < 0) return false;
    const from = samples[j2];
    return Math.abs(last.offset - from.offset) / (last.t - from.t) >= 0.05;
  }

  // node_modules/@tanstack/virtual-core/dist/esm/ios-gesture.js
  var _isIOSResult;
  var isIOSWebKit = () => {
    if (_isIOSResult !== void 0) return _isIOSResult;
    if (typeof navigator === "undefined") return _isIOSResult = false;
    if (/iP(hone|od|ad)/.test(navigator.userAgent)) return _isIOSResult = true;
    const mtp = navigator.maxTouchPoints;
    return _isIOSResult = navigator.platform === "MacIntel" && mtp !== void 0 && mtp > 0;
  };
  var _iosMomentumOverridesWritesResult;
  var iosMomentumOverridesWrites = () => {
    if (_iosMomentumOverridesWritesResult !== void 0) {
      return _iosMomentumOverridesWritesResult;
    }
    return _iosMomentumOverridesWritesResult = isIOSWebKit() && typeof CSS !== "undefined" && typeof CSS.supports === "function" && CSS.supports("overflow-anchor: auto");
  };
  var momentumOverridesWrites = () => !isIOSWebKit() || iosMomentumOverridesWrites();
  var touchListenerOptions = {
    capture: true,
    passive: true
  };
  var IosGesture = class {
    constructor(host) {
      this.host = host;
      this._touch = null;
      this.inMotion = () => this._touch !== null && this._touch.phase !== "lateFling";
      this.dragging = () => {
        var _a;
        return ((_a = this._touch) == null ? void 0 : _a.phase) === "down" && this._touch.moved;
      };
      this.tail = () => {
        var _a;
        return ((_a = this._touch) == null ? void 0 : _a.phase) === "tail" ? this._touch.moved ? "fling" : "tap" : null;
      };
      this.onScroll = ({
        isScrolling,
        ownReadBack,
        moved,
        external
      }) => {
        var _a, _b, _c;
        if (isScrolling && ((_a = this._touch) == null ? void 0 : _a.phase) === "tail") {
          this._openTail(this._touch.moved || !ownReadBack, false);
        } else if (((_b = this._touch) == null ? void 0 : _b.phase) === "lateFling") {
          if (this.host.now() > this._touch.until) {
            this._touch = null;
          } else if (external && isScrolling && moved) {
            this._openTail(true, false);
          }
        }
        if (!ownReadBack && isScrolling && moved && ((_c = this._touch) == null ? void 0 : _c.phase) === "down") {
          this._touch.moved = true;
          return true;
        }
        return false;
      };
      this.touchStart = () => {
        this.end();
        this._touch = { phase: "down", moved: false };
      };
      this.touchEnd = () => {
        var _a;
        const moved = ((_a = this._touch) == null ? void 0 : _a.phase) === "down" && this._touch.moved;
        this.end();
        this._openTail(moved, moved);
      };
      this.end = () => {
        var _a;
        const win = this.host.getWindow();
        if (((_a = this._touch) == null ? void 0 : _a.phase) === "tail" && win != null) {
          win.clearTimeout(this._touch.timerId);
        }
        this._touch = null;
      };
      this.listen = (target) => {
        const onTouchStart = () => this.touchStart();
        const onTouchEnd = () => this.touchEnd();
        target.addEventListener("touchstart", onTouchStart, touchListenerOptions);
        target.addEventListener("touchend", onTouchEnd, touchListenerOptions);
        target.addEventListener("touchcancel", onTouchEnd, touchListenerOptions);
        return () => {
          target.removeEventListener(
            "touchstart",
            onTouchStart,
            touchListenerOptions
          );
          target.removeEventListener("touchend", onTouchEnd, touchListenerOptions);
          target.removeEventListener(
            "touchcancel",
            onTouchEnd,
            touchListenerOptions
          );
          this.end();
        };
      };
      this._openTail = (moved, awaitingFling) => {
        const win = this.host.getWindow();
        if (win == null) return;
        this.end();
        const tail = {
          phase: "tail",
          moved,
          awaitingFling,
          // Only fires while this tail is current: `end` clears it otherwise.
          timerId: win.setTimeout(() => {
            if (this.host.tailStillMoving()) {
              this._openTail(tail.moved, tail.awaitingFling);
              return;
            }
            this._touch = tail.awaitingFling ? { phase: "lateFling", until: this.host.now() + 1e3 } : null;
            this.host.onTailClosed();
          }, 150)
        };
        this._touch = tail;
      };
    }
    get touch() {
      return this._touch;
    }
  };

  // node_modules/@tanstack/virtual-core/dist/esm/index.js
  var createFrameQueue = (targetWindow) => {
    const ids = /* @__PURE__ */ new Set();
    return {
      schedule: (fn) => {
        const id = targetWindow.requestAnimationFrame(() => {
          ids.delete(id);
          fn();
        });
        ids.add(id);
      },
      cancel: () => {
        ids.forEach((id) => targetWindow.cancelAnimationFrame(id));
        ids.clear();
      }
    };
  };
  var defaultKeyExtractor = (index) => index;
  var defaultRangeExtractor = (range) => {
    const overscan = range.overscan * Math.max(range.lanes ?? 1, 1);
    const start = Math.max(range.startIndex - overscan, 0);
    const end = Math.min(range.endIndex + overscan, range.count - 1);
    const len = end - start + 1;
    const arr = new Array(len);
    for (let i3 = 0; i3 < len; i3++) {
      arr[i3] = start + i3;
    }
    return arr;
  };
  var addEventListenerOptions = {
    passive: true
  };
  var observeWindowRect = (instance, cb) => {
    const element = instance.scrollElement;
    if (!element) {
      return;
    }
    const handler = () => {
      cb({ width: element.innerWidth, height: element.innerHeight });
    };
    handler();
    element.addEventListener("resize", handler, addEventListenerOptions);
    return () => {
      element.removeEventListener("resize", handler);
    };
  };
  var supportsScrollend = typeof window == "undefined" ? true : "onscrollend" in window;
  var observeOffset = (instance, cb, readOffset) => {
    const element = instance.scrollElement;
    if (!element) {
      return;
    }
    const targetWindow = instance.targetWindow;
    if (!targetWindow) {
      return;
    }
    const registerScrollendEvent = instance.options.useScrollendEvent && supportsScrollend;
    let offset = 0;
    const fallback = registerScrollendEvent ? null : debounce(
      targetWindow,
      () => cb(readOffset(element), false),
      instance.options.isScrollingResetDelay
    );
    const createHandler = (isScrolling) => () => {
      offset = readOffset(element);
      fallback == null ? void 0 : fallback();
      cb(offset, isScrolling);
    };
    const handler = createHandler(true);
    const endHandler = createHandler(false);
    element.addEventListener("scroll", handler, addEventListenerOptions);
    if (registerScrollendEvent) {
      element.addEventListener("scrollend", endHandler, addEventListenerOptions);
    }
    return () => {
      element.removeEventListener("scroll", handler);
      if (registerScrollendEvent) {
        element.removeEventListener("scrollend", endHandler);
      }
      fallback == null ? void 0 : fallback.cancel();
    };
  };
  var observeWindowOffset = (instance, cb) => observeOffset(
    instance,
    cb,
    (win) => instance.options.horizontal ? win.scrollX : win.scrollY
  );
  var measureElement = (element, entry, instance) => {
    if (instance.options.useCachedMeasurements) {
      const index = instance.indexFromElement(element);
      const key = instance.options.getItemKey(index);
      return instance.itemSizeCache.get(key) ?? instance.options.estimateSize(index);
    }
    if (entry == null ? void 0 : entry.borderBoxSize) {
      const box = entry.borderBoxSize[0];
      if (box) {
        const size = Math.round(
          box[instance.options.horizontal ? "inlineSize" : "blockSize"]
        );
        return size;
      }
    }
    if (!entry) {
      const index = instance.indexFromElement(element);
      const key = instance.options.getItemKey(index);
      const cachedSize = instance.itemSizeCache.get(key);
      if (cachedSize !== void 0) {
        return cachedSize;
      }
    }
    return element[instance.options.horizontal ? "offsetWidth" : "offsetHeight"];
  };
  var scrollWithAdjustments = (offset, {
    adjustments = 0,
    behavior
  }, instance) => {
    var _a;
    const { scrollElement, options } = instance;
    const adjustedOffset = offset + adjustments;
    const isRtlElement = options.horizontal && options.isRtl && scrollElement !== null && "ownerDocument" in scrollElement;
    (_a = scrollElement == null ? void 0 : scrollElement.scrollTo) == null ? void 0 : _a.call(scrollElement, {
      [options.horizontal ? "left" : "top"]: isRtlElement ? -adjustedOffset : adjustedOffset,
      behavior
    });
  };
  var windowScroll = scrollWithAdjustments;
  var initialScrollPhase = (behavior, atTarget) => behavior === "smooth" ? atTarget ? "smoothLanded" : "smooth" : "instant";
  var isSmoothScroll = (state) => (state == null ? void 0 : state.phase) === "smooth" || (state == null ? void 0 : state.phase) === "smoothLanded";
  function isAppendWithTrim(prevCount, nextCount, getPreviousKey, getNextKey) {
    if (nextCount === 0) return false;
    const firstKey = getNextKey(0);
    const removedKeys = /* @__PURE__ */ new Set();
    let removedCount = 0;
    while (removedCount < prevCount) {
      const key = getPreviousKey(removedCount);
      if (key === firstKey) break;
      removedKeys.add(key);
      removedCount++;
    }
    const retainedCount = prevCount - removedCount;
    if (retainedCount === 0 || retainedCount >= nextCount) return false;
    for (let i3 = 0; i3 < retainedCount; i3++) {
      if (getNextKey(i3) !== getPreviousKey(removedCount + i3)) return false;
    }
    for (let i3 = retainedCount; i3 < nextCount; i3++) {
      if (removedKeys.has(getNextKey(i3))) return false;
    }
    return true;
  }
  var Virtualizer = class {
    constructor(opts) {
      this.unsubs = [];
      this.scrollElement = null;
      this.targetWindow = null;
      this.isScrolling = false;
      this.scrollState = null;
      this.measurementsCache = [];
      this._singleLaneMeasurements = null;
      this.itemSizeCache = /* @__PURE__ */ new Map();
      this.itemSizeCacheVersion = 0;
      this.laneAssignments = /* @__PURE__ */ new Map();
      this.pendingMin = null;
      this.prevLanes = void 0;
      this.lanesChangedFlag = false;
      this.lanesSettling = false;
      this.pendingScrollAnchor = null;
      this.scrollRect = null;
      this.scrollOffset = null;
      this.scrollDirection = null;
      this._holdOffset = 0;
      this._reportedOverscroll = false;
      this._iosGesture = new IosGesture({
        getWindow: () => this.targetWindow,
        now: () => this.now(),
        // The end of a fling can move less than a pixel per scroll event, so
        // events can stop for 150ms while the fling is still running (seen on
        // an iPhone, 27.0.1). A command waiting for it would then be written
        // into the fling and overridden. The element having moved since the
        // last event means it has not ended: wait again. Not while our own
        // write has yet to report: that moved it.
        tailStillMoving: () => {
          const state = this.scrollState;
          if ((state == null ? void 0 : state.phase) !== "queued" || this.pendingWrite !== null) {
            return false;
          }
          const now = this._readElementOffset();
          if (now === null || this._lastElementOffset === null || Math.abs(now - this._lastElementOffset) < 1) {
            return false;
          }
          this._lastElementOffset = now;
          state.samples = [...state.samples ?? [], { t: this.now(), offset: now }];
          return true;
        },
        onTailClosed: () => {
          const state = this.scrollState;
          if ((state == null ? void 0 : state.phase) === "queued" && flingCaught(state.samples ?? [])) {
            this.scrollState = null;
          }
          this._flushHoldIfReady(true);
          this._writeAwaitingCommand();
          this._retryClampedAdjustment();
        }
      });
      this._lastElementOffset = null;
      this.pendingWrite = null;
      this._clampedAdjustment = null;
      this.elementsCache = /* @__PURE__ */ new Map();
      this._resizeBatch = null;
      this.now = () => {
        var _a, _b, _c;
        return ((_c = (_b = (_a = this.targetWindow) == null ? void 0 : _a.performance) == null ? void 0 : _b.now) == null ? void 0 : _c.call(_b)) ?? Date.now();
      };
      this.observer = /* @__PURE__ */ (() => {
        let _ro = null;
        let _frames = null;
        let delivering = false;
        let observeQueued = false;
        const pendingObservations = /* @__PURE__ */ new Set();
        const get = () => {
          if (_ro) {
            return _ro;
          }
          const targetWindow = this.targetWindow;
          if (!targetWindow || !targetWindow.ResizeObserver) {
            return null;
          }
          const frames = _frames = createFrameQueue(targetWindow);
          return _ro = new targetWindow.ResizeObserver((entries) => {
            const run = () => {
              const batch = { sync: false };
              this._resizeBatch = batch;
              try {
                entries.forEach(measureEntry);
              } finally {
                this._resizeBatch = null;
                if (batch.notify) {
                  this.notify(batch.sync);
                  this._noteClampMax();
                  this._flushHoldIfReady(true);
                  this._retryClampedAdjustment();
                  this.measureElement(null);
                }
              }
            };
            if (this.options.useAnimationFrameWithResizeObserver) {
              frames.schedule(run);
            } else {
              delivering = true;
              try {
                run();
              } finally {
                delivering = false;
              }
            }
          });
        };
        const measureEntry = (entry) => {
          const node = entry.target;
          const index = this.indexFromElement(node);
          if (!node.isConnected) {
            this.observer.unobserve(node);
            for (const [cacheKey, cachedNode] of this.elementsCache) {
              if (cachedNode === node) {
                this.elementsCache.delete(cacheKey);
                break;
              }
            }
            return;
          }
          if (!this.isIndexInRange(index)) return;
          if (this.shouldMeasureDuringScroll(index)) {
            this.resizeItem(index, this.options.measureElement(node, entry, this));
          }
        };
        return {
          disconnect: () => {
            var _a;
            (_a = get()) == null ? void 0 : _a.disconnect();
            _frames == null ? void 0 : _frames.cancel();
            pendingObservations.clear();
            observeQueued = false;
            _ro = null;
            _frames = null;
          },
          observe: (target) => {
            const observer = get();
            if (!observer) return;
            if (!delivering) {
              observer.observe(target, { box: "border-box" });
              return;
            }
            pendingObservations.add(target);
            if (!observeQueued) {
              observeQueued = true;
              _frames == null ? void 0 : _frames.schedule(() => {
                observeQueued = false;
                pendingObservations.forEach((node) => {
                  if (node.isConnected) _ro == null ? void 0 : _ro.observe(node, { box: "border-box" });
                });
                pendingObservations.clear();
              });
            }
          },
          unobserve: (target) => {
            var _a;
            pendingObservations.delete(target);
            (_a = get()) == null ? void 0 : _a.unobserve(target);
          }
        };
      })();
      this.range = null;
      this.setOptions = (opts2) => {
        var _a;
        const merged = {
          debug: false,
          initialOffset: 0,
          overscan: 1,
          paddingStart: 0,
          paddingEnd: 0,
          scrollPaddingStart: 0,
          scrollPaddingEnd: 0,
          horizontal: false,
          getItemKey: defaultKeyExtractor,
          rangeExtractor: defaultRangeExtractor,
          onChange: () => {
          },
          measureElement,
          initialRect: { width: 0, height: 0 },
          scrollMargin: 0,
          gap: 0,
          indexAttribute: "data-index",
          initialMeasurementsCache: [],
          lanes: 1,
          anchorTo: "start",
          followOnAppend: false,
          scrollEndThreshold: 1,
          isScrollingResetDelay: 150,
          enabled: true,
          isRtl: false,
          useScrollendEvent: false,
          useAnimationFrameWithResizeObserver: false,
          laneAssignmentMode: "estimate",
          useCachedMeasurements: false
        };
        for (const key in opts2) {
          const v3 = opts2[key];
          if (v3 !== void 0) merged[key] = v3;
        }
        const prevOptions = this.options;
        let anchor = null;
        let followOnAppend = null;
        let edgeKeysChanged = false;
        if (prevOptions !== void 0 && prevOptions.enabled && merged.enabled && merged.anchorTo === "end" && this.scrollElement !== null) {
          const prevCount = prevOptions.count;
          const nextCount = merged.count;
          const measurements = this.getMeasurements();
          const previousItems = ((_a = this._singleLaneMeasurements) == null ? void 0 : _a.items) ?? measurements;
          const getPreviousKey = (index) => getMeasurementKey(previousItems[index]);
          const prevFirstKey = prevCount > 0 ? getPreviousKey(0) : null;
          const prevLastKey = prevCount > 0 ? getPreviousKey(prevCount - 1) : null;
          const didCountChange = nextCount !== prevCount;
          const didEdgeKeysChange = didCountChange || prevCount > 0 && nextCount > 0 && (merged.getItemKey(0) !== prevFirstKey || merged.getItemKey(nextCount - 1) !== prevLastKey);
          if (didEdgeKeysChange) {
            edgeKeysChanged = true;
            const item = prevCount > 0 ? this.getVirtualItemForOffset(this.getScrollOffset()) ?? measurements[0] : null;
            if (item) {
              anchor = [item.key, this.getScrollOffset() - item.start];
            }
            const behavior = merged.followOnAppend === true ? "auto" : merged.followOnAppend || null;
            if (behavior && nextCount > 0 && this.isAtEnd(prevOptions.scrollEndThreshold) && (prevCount === 0 || merged.getItemKey(nextCount - 1) !== prevLastKey)) {
              if (nextCount > prevCount || isAppendWithTrim(
                prevCount,
                nextCount,
                getPreviousKey,
                merged.getItemKey
              )) {
                followOnAppend = behavior;
              }
            }
          }
        }
        this.options = merged;
        if (edgeKeysChanged) {
          this.pendingMin = 0;
          this.itemSizeCacheVersion++;
        }
        let anchorDelta = null;
        if (anchor && this.scrollOffset !== null && !this._awaitingCommandReadBack()) {
          const [anchorKey, anchorOffset] = anchor;
          const newMeasurements = this.getMeasurements();
          const { count: count2, getItemKey } = this.options;
          let idx = 0;
          while (idx < count2 && getItemKey(idx) !== anchorKey) {
            idx++;
          }
          if (idx < count2) {
            const anchorItem = newMeasurements[idx];
            if (anchorItem) {
              const newOffset = Math.max(0, anchorItem.start + anchorOffset);
              if (!followOnAppend && newOffset !== this.scrollOffset) {
                anchorDelta = newOffset - this.scrollOffset;
                this.scrollOffset = newOffset;
              }
            }
          }
        }
        if (followOnAppend) {
          this.pendingScrollAnchor = { kind: "follow", behavior: followOnAppend };
        } else if (anchorDelta !== null) {
          if (this._canWriteScroll()) {
            this.pendingScrollAnchor = { kind: "anchor", delta: anchorDelta };
          } else {
            this._holdOffset += anchorDelta;
            this._followOffsetTarget(anchorDelta);
          }
        }
      };
      this.notify = (sync) => {
        var _a, _b;
        (_b = (_a = this.options).onChange) == null ? void 0 : _b.call(_a, this, sync);
      };
      this.maybeNotify = memo(
        () => {
          this.calculateRange();
          return [
            this.isScrolling,
            this.range ? this.range.startIndex : null,
            this.range ? this.range.endIndex : null
          ];
        },
        (isScrolling) => {
          this.notify(isScrolling);
        },
        {
          key: "maybeNotify",
          debug: () => this.options.debug,
          initialDeps: [
            this.isScrolling,
            this.range ? this.range.startIndex : null,
            this.range ? this.range.endIndex : null
          ]
        }
      );
      this.cleanup = () => {
        var _a;
        this.unsubs.filter(Boolean).forEach((d3) => d3());
        this.unsubs = [];
        this.observer.disconnect();
        if (this.rafId != null && this.targetWindow) {
          this.targetWindow.cancelAnimationFrame(this.rafId);
          this.rafId = null;
        }
        this.scrollState = null;
        (_a = this._momentumStop) == null ? void 0 : _a.restore();
        this._momentumStop = null;
        this.isScrolling = false;
        this.scrollDirection = null;
        this._holdOffset = 0;
        this._reportedOverscroll = false;
        this._clampedAdjustment = null;
        this.pendingWrite = null;
        this.scrollElement = null;
        this.targetWindow = null;
      };
      this._didMount = () => {
        return () => {
          this.cleanup();
        };
      };
      this._willUpdate = () => {
        var _a;
        const scrollElement = this.options.enabled ? this.options.getScrollElement() : null;
        if (this.scrollElement !== scrollElement) {
          this.cleanup();
          if (!scrollElement) {
            this.maybeNotify();
            return;
          }
          this.scrollElement = scrollElement;
          if (this.scrollElement && "ownerDocument" in this.scrollElement) {
            this.targetWindow = this.scrollElement.ownerDocument.defaultView;
          } else {
            this.targetWindow = ((_a = this.scrollElement) == null ? void 0 : _a.window) ?? null;
          }
          this.elementsCache.forEach((cached) => {
            this.observer.observe(cached);
          });
          this.unsubs.push(
            this.options.observeElementRect(this, (rect) => {
              this.scrollRect = rect;
              this.maybeNotify();
            })
          );
          this.unsubs.push(
            this.options.observeElementOffset(this, (offset, isScrolling) => {
              var _a2, _b, _c, _d;
              const elementMax = isScrolling ? this._elementMaxScrollOffset() : null;
              const wasOverscrolled = this._reportedOverscroll;
              this._reportedOverscroll = offset < 0 || elementMax !== null && offset > elementMax + 1;
              const elementOffset = offset;
              this._lastElementOffset = elementOffset;
              offset = this._toLayoutOffset(offset);
              const kind = this._classifyScrollEvent(
                offset,
                isScrolling,
                elementMax
              );
              if (kind === "spurious") return;
              if (kind === "readBack") {
                offset = this.pendingWrite.target;
              } else if (kind === "clampedReadBack" && ((_a2 = this.scrollState) == null ? void 0 : _a2.index) != null && // Not `elementMax`: an adapter can report the read-back at rest.
              offset < this.getMaxScrollOffset() - 1.5) {
                this.scrollState.lastTargetOffset = offset;
              } else if (externalRetiresCommand({
                kind,
                offset,
                command: this.scrollState,
                target: () => this.getScrollStateTarget(this.scrollState)
              })) {
                this.scrollState = null;
              }
              this.pendingWrite = null;
              if (this._clampedAdjustment !== null && Math.abs(offset - this._clampedAdjustment.maxAtWrite) >= 1.5) {
                this._clampedAdjustment = null;
              }
              const prevOffset = this.getScrollOffset();
              const prevDirection = this.scrollDirection;
              this.scrollDirection = isScrolling ? prevOffset === offset ? this.scrollDirection : prevOffset < offset ? "forward" : "backward" : null;
              this.scrollOffset = offset;
              this.isScrolling = isScrolling;
              const queued = this.scrollState;
              if ((queued == null ? void 0 : queued.phase) === "queued" && kind === "external" && isScrolling) {
                if (wasOverscrolled || this._reportedOverscroll) {
                  queued.samples = [];
                } else {
                  const t3 = this.now();
                  queued.samples = [
                    ...(queued.samples ?? []).filter(
                      (sample) => t3 - sample.t <= 200
                    ),
                    { t: t3, offset: elementOffset }
                  ];
                  if (prevDirection !== null && this.scrollDirection !== prevDirection || flingSpedUp(queued.samples)) {
                    this.scrollState = null;
                  }
                }
              }
              if (this._iosGesture.onScroll({
                isScrolling,
                ownReadBack: kind === "readBack",
                moved: offset !== prevOffset,
                // Neither our write's read-back nor a frame of our smooth
                // animation: the user or a fling moved it.
                external: kind === "external" && ((_b = this.scrollState) == null ? void 0 : _b.phase) !== "smooth" && ((_c = this.scrollState) == null ? void 0 : _c.phase) !== "smoothFinishing"
              }) && // The user scrolls: a command still waiting for the tail is
              // theirs to override, like a written one would be.
              ((_d = this.scrollState) == null ? void 0 : _d.phase) === "queued") {
                this.scrollState = null;
              }
              this._flushHoldIfReady(true);
              if (this.scrollState) {
                this.scheduleScrollReconcile();
              }
              this.maybeNotify();
            })
          );
          if ("addEventListener" in this.scrollElement) {
            this.unsubs.push(
              this._iosGesture.listen(this.scrollElement)
            );
          }
          this._scrollToOffset(this.getScrollOffset());
        }
        this._noteClampMax();
        const anchor = this.pendingScrollAnchor;
        this.pendingScrollAnchor = null;
        if (anchor && this.scrollElement && this.options.enabled) {
          if (anchor.kind === "anchor") {
            if (!this._canWriteScroll()) {
              this._holdOffset += anchor.delta;
              this._followOffsetTarget(anchor.delta);
              this.notify(false);
            } else if (isSmoothScroll(this.scrollState) && !approxEqual(
              this.getScrollOffset() - anchor.delta,
              this.scrollState.lastTargetOffset
            )) ;
            else {
              this._followOffsetTarget(anchor.delta);
              this._scrollToOffset(this.getScrollOffset());
            }
          } else {
            this.scrollToEnd({ behavior: anchor.behavior });
          }
        }
        this._flushHoldIfReady(false);
        this._retryClampedAdjustment();
      };
      this._classifyScrollEvent = (offset, isScrolling, elementMax) => {
        var _a;
        return classifyScrollEvent({
          offset,
          isScrolling,
          elementMax,
          holdOffset: this._holdOffset,
          scrollOffset: this.scrollOffset,
          pendingWrite: this.pendingWrite,
          clampedMaxAtWrite: ((_a = this._clampedAdjustment) == null ? void 0 : _a.maxAtWrite) ?? null
        });
      };
      this._retryClampedAdjustment = () => {
        if (this._clampedAdjustment === null || !this.scrollElement || !this.options.enabled || !this._canWriteScroll()) {
          return;
        }
        const { target, maxAtWrite } = this._clampedAdjustment;
        const max = this.getMaxScrollOffset();
        if (max > maxAtWrite + 0.5) {
          this._clampedAdjustment = target > max + 0.5 ? { target, maxAtWrite: max } : null;
          this._scrollToOffset(target);
        }
      };
      this._writeAwaitingCommand = () => {
        const state = this.scrollState;
        if (state === null || state.phase !== "queued") return;
        const { behavior } = state;
        this.getMeasurements();
        const offset = this.getScrollStateTarget(state);
        state.lastTargetOffset = offset;
        this._clampedAdjustment = null;
        state.phase = initialScrollPhase(
          behavior,
          state.index != null && approxEqual(offset, this.getScrollOffset())
        );
        this._scrollToOffset(offset, { behavior });
        this.scheduleScrollReconcile();
      };
      this._readElementOffset = () => {
        const el = this.scrollElement;
        if (el == null) return null;
        const { horizontal, isRtl } = this.options;
        if (typeof el.scrollTop === "number") {
          return horizontal ? el.scrollLeft * (isRtl && -1 || 1) : el.scrollTop;
        }
        if (typeof el.scrollY === "number") {
          return horizontal ? el.scrollX : el.scrollY;
        }
        return null;
      };
      this._canWriteScroll = () => !(isIOSWebKit() && this._iosGesture.inMotion()) && !this._reportedOverscroll;
      this._flushHoldIfReady = (sync) => {
        var _a;
        if (this._holdOffset === 0) return;
        if (!this.scrollElement || !this.options.enabled) return;
        if (!this._canWriteScroll()) return;
        if (((_a = this.scrollState) == null ? void 0 : _a.phase) === "smooth") return;
        this._holdOffset = 0;
        if (this.scrollOffset !== null && this.scrollOffset < 0) {
          this.scrollOffset = 0;
        }
        this.notify(sync);
        const target = this.getCommandWrittenOffset() ?? this.getScrollOffset();
        this._clampedAdjustment = this._clampedBy(target);
        this._scrollToOffset(target);
      };
      this.rafId = null;
      this.getSize = () => {
        if (!this.options.enabled) {
          this.scrollRect = null;
          return 0;
        }
        this.scrollRect = this.scrollRect ?? this.options.initialRect;
        return this.scrollRect[this.options.horizontal ? "width" : "height"];
      };
      this.getScrollOffset = () => {
        if (!this.options.enabled) {
          this.scrollOffset = null;
          return 0;
        }
        this.scrollOffset = this.scrollOffset ?? (typeof this.options.initialOffset === "function" ? this.options.initialOffset() : this.options.initialOffset);
        return this.scrollOffset;
      };
      this.getMeasurementOptions = memo(
        () => [
          this.options.count,
          this.options.paddingStart,
          this.options.scrollMargin,
          this.options.getItemKey,
          this.options.enabled,
          this.options.lanes,
          this.options.laneAssignmentMode,
          this.options.gap
        ],
        (count2, paddingStart, scrollMargin, getItemKey, enabled, lanes, laneAssignmentMode, gap) => {
          const lanesChanged = this.prevLanes !== void 0 && this.prevLanes !== lanes;
          if (lanesChanged) {
            this.lanesChangedFlag = true;
          }
          this.prevLanes = lanes;
          this.pendingMin = null;
          return {
            count: count2,
            paddingStart,
            scrollMargin,
            getItemKey,
            enabled,
            lanes,
            laneAssignmentMode,
            gap
          };
        },
        {
          key: false
        }
      );
      this.isIndexInRange = (index) => index >= 0 && index < this.options.count;
      this.getMeasurements = memo(
        () => [this.getMeasurementOptions(), this.itemSizeCacheVersion],
        ({
          count: count2,
          paddingStart,
          scrollMargin,
          getItemKey,
          enabled,
          lanes,
          laneAssignmentMode,
          gap
        }, _itemSizeCacheVersion) => {
          var _a;
          const itemSizeCache = this.itemSizeCache;
          if (!enabled) {
            this.measurementsCache = [];
            this._singleLaneMeasurements = null;
            this.itemSizeCache.clear();
            this.laneAssignments.clear();
            return [];
          }
          if (this.laneAssignments.size > count2) {
            for (const index of this.laneAssignments.keys()) {
              if (index >= count2) {
                this.laneAssignments.delete(index);
              }
            }
          }
          if (this.lanesChangedFlag) {
            this.lanesChangedFlag = false;
            this.lanesSettling = true;
            this.measurementsCache = [];
            this._singleLaneMeasurements = null;
            this.itemSizeCache.clear();
            this.laneAssignments.clear();
            this.pendingMin = null;
          }
          if (this.measurementsCache.length === 0 && !this.lanesSettling) {
            this.measurementsCache = this.options.initialMeasurementsCache;
            this.measurementsCache.forEach((item) => {
              this.itemSizeCache.set(item.key, item.size);
            });
          }
          const min = this.lanesSettling ? 0 : this.pendingMin ?? 0;
          this.pendingMin = null;
          if (this.lanesSettling && this.measurementsCache.length === count2) {
            this.lanesSettling = false;
          }
          if (lanes === 1) {
            const need = count2 * 2;
            let flat = (_a = this._singleLaneMeasurements) == null ? void 0 : _a.flat;
            if (!flat || flat.length < need) {
              const next = new Float64Array(need);
              if (flat && min > 0) next.set(flat.subarray(0, min * 2));
              flat = next;
            }
            const items = min === 0 ? new Array(count2) : this._singleLaneMeasurements.items.slice();
            let runningStart;
            if (min === 0) {
              runningStart = paddingStart + scrollMargin;
            } else {
              const prevIdx = min - 1;
              runningStart = flat[prevIdx * 2] + flat[prevIdx * 2 + 1] + gap;
            }
            for (let i3 = min; i3 < count2; i3++) {
              const key = getItemKey(i3);
              items[i3] = key;
              const measuredSize = itemSizeCache.get(key);
              const size = typeof measuredSize === "number" ? measuredSize : this.options.estimateSize(i3);
              flat[i3 * 2] = runningStart;
              flat[i3 * 2 + 1] = size;
              runningStart += size + gap;
            }
            this._singleLaneMeasurements = { flat, items };
            const view = createLazyMeasurementsView(items, flat);
            this.measurementsCache = view;
            return view;
          }
          const measurements = this.measurementsCache.slice(0, min);
          const laneLastIndex = new Array(lanes).fill(
            void 0
          );
          const laneEnds = new Float64Array(lanes);
          let filledLanes = 0;
          for (let m3 = 0; m3 < min; m3++) {
            const item = measurements[m3];
            if (item) {
              if (laneLastIndex[item.lane] === void 0) filledLanes++;
              laneLastIndex[item.lane] = m3;
              laneEnds[item.lane] = item.end;
            }
          }
          for (let i3 = min; i3 < count2; i3++) {
            const key = getItemKey(i3);
            const cachedLane = this.laneAssignments.get(i3);
            let lane;
            let start;
            const shouldCacheLane = laneAssignmentMode === "estimate" || itemSizeCache.has(key);
            if (cachedLane !== void 0 && this.options.lanes > 1) {
              lane = cachedLane;
              const prevIndex = laneLastIndex[lane];
              const prevInLane = prevIndex !== void 0 ? measurements[prevIndex] : void 0;
              start = prevInLane ? prevInLane.end + gap : paddingStart + scrollMargin;
            } else if (filledLanes === lanes) {
              let bestLane = 0;
              let bestEnd = laneEnds[0];
              let bestIdx = laneLastIndex[0];
              for (let l3 = 1; l3 < lanes; l3++) {
                const e3 = laneEnds[l3];
                if (e3 < bestEnd || e3 === bestEnd && laneLastIndex[l3] < bestIdx) {
                  bestLane = l3;
                  bestEnd = e3;
                  bestIdx = laneLastIndex[l3];
                }
              }
              lane = bestLane;
              start = bestEnd + gap;
              if (shouldCacheLane) {
                this.laneAssignments.set(i3, lane);
              }
            } else {
              lane = i3 % this.options.lanes;
              start = paddingStart + scrollMargin;
              if (shouldCacheLane) {
                this.laneAssignments.set(i3, lane);
              }
            }
            const measuredSize = itemSizeCache.get(key);
            const size = typeof measuredSize === "number" ? measuredSize : this.options.estimateSize(i3);
            const end = start + size;
            measurements[i3] = {
              index: i3,
              start,
              size,
              end,
              key,
              lane
            };
            if (laneLastIndex[lane] === void 0) filledLanes++;
            laneLastIndex[lane] = i3;
            laneEnds[lane] = end;
          }
          this.measurementsCache = measurements;
          return measurements;
        },
        {
          key: "getMeasurements",
          debug: () => this.options.debug
        }
      );
      this.calculateRange = memo(
        () => [
          this.getMeasurements(),
          this.getSize(),
          this.getScrollOffset(),
          this.options.lanes,
          // scrollOffset is measured in the scroll element and the layout total
          // from the list start, so the list ends scrollMargin further down.
          this._getLayoutTotalSize() + this.options.scrollMargin
        ],
        (measurements, outerSize, scrollOffset, lanes, listEnd) => {
          if (measurements.length === 0 || outerSize === 0) {
            this.range = null;
            return null;
          }
          const maxScrollOffset = Math.max(listEnd - outerSize, 0);
          this.range = calculateRangeImpl(
            measurements,
            outerSize,
            Math.min(scrollOffset, maxScrollOffset),
            lanes,
            // Pass the typed array so binary search + forward-walk can read
            // start/end directly from Float64Array, skipping the Proxy traps.
            lanes === 1 && this._singleLaneMeasurements !== null ? this._singleLaneMeasurements.flat : null
          );
          return this.range;
        },
        {
          key: "calculateRange",
          debug: () => this.options.debug
        }
      );
      this.getVirtualIndexes = memo(
        () => {
          let startIndex = null;
          let endIndex = null;
          const range = this.calculateRange();
          if (range) {
            startIndex = range.startIndex;
            endIndex = range.endIndex;
          }
          this.maybeNotify.updateDeps([this.isScrolling, startIndex, endIndex]);
          return [
            this.options.rangeExtractor,
            this.options.overscan,
            this.options.count,
            startIndex,
            endIndex,
            this.options.lanes
          ];
        },
        (rangeExtractor, overscan, count2, startIndex, endIndex, lanes) => {
          return startIndex === null || endIndex === null ? [] : rangeExtractor({
            startIndex,
            endIndex,
            overscan,
            count: count2,
            lanes
          });
        },
        {
          key: "getVirtualIndexes",
          debug: () => this.options.debug
        }
      );
      this.indexFromElement = (node) => {
        const attributeName = this.options.indexAttribute;
        const indexStr = node.getAttribute(attributeName);
        if (!indexStr) {
          console.warn(
            `Missing attribute name '${attributeName}={index}' on measured element.`
          );
          return -1;
        }
        return parseInt(indexStr, 10);
      };
      this.shouldMeasureDuringScroll = (index) => {
        var _a;
        if (!isSmoothScroll(this.scrollState)) {
          return true;
        }
        const scrollIndex = this.scrollState.index ?? ((_a = this.getVirtualItemForOffset(this.scrollState.lastTargetOffset)) == null ? void 0 : _a.index);
        if (scrollIndex !== void 0 && this.range) {
          const bufferSize = Math.max(
            this.options.overscan,
            Math.ceil((this.range.endIndex - this.range.startIndex) / 2)
          );
          const minIndex = Math.max(0, scrollIndex - bufferSize);
          const maxIndex = Math.min(
            this.options.count - 1,
            scrollIndex + bufferSize
          );
          return index >= minIndex && index <= maxIndex;
        }
        return true;
      };
      this.measureElement = (node) => {
        if (!node) {
          this.elementsCache.forEach((cached, key2) => {
            if (!cached.isConnected) {
              this.observer.unobserve(cached);
              this.elementsCache.delete(key2);
            }
          });
          return;
        }
        const index = this.indexFromElement(node);
        if (!this.isIndexInRange(index)) return;
        const key = this.options.getItemKey(index);
        const prevNode = this.elementsCache.get(key);
        if (prevNode !== node) {
          if (prevNode) {
            this.observer.unobserve(prevNode);
          }
          this.observer.observe(node);
          this.elementsCache.set(key, node);
        }
        if (node.isConnected && (!this.isScrolling || this.scrollState) && this.shouldMeasureDuringScroll(index)) {
          this.resizeItem(index, this.options.measureElement(node, void 0, this));
        }
      };
      this.resizeItem = (index, size) => {
        var _a, _b, _c;
        if (!this.isIndexInRange(index)) return;
        if ((_a = this._resizeBatch) == null ? void 0 : _a.sync) this.getMeasurements();
        let cachedSize;
        let itemStart;
        let key;
        const flat = (_b = this._singleLaneMeasurements) == null ? void 0 : _b.flat;
        if (this.options.lanes === 1 && flat != null) {
          key = this.options.getItemKey(index);
          itemStart = flat[index * 2];
          cachedSize = flat[index * 2 + 1];
        } else {
          const item = this.measurementsCache[index];
          if (!item) return;
          key = item.key;
          itemStart = item.start;
          cachedSize = item.size;
        }
        const itemSize = this.itemSizeCache.get(key) ?? cachedSize;
        const delta = size - itemSize;
        if (delta !== 0) {
          const wasAtEnd = this.options.anchorTo === "end" && !isSmoothScroll(this.scrollState) && this.getVirtualDistanceFromEnd() <= this.options.scrollEndThreshold;
          const prevTotalSize = wasAtEnd ? this._getLayoutTotalSize() : 0;
          const scrollOffset = this.getScrollOffset();
          const isFirstMeasure = !this.itemSizeCache.has(key);
          const defaultShouldAdjust = isFirstMeasure ? (
            // First measurement: compensate any item whose top sits above the
            // fold — the estimate→actual delta must be corrected regardless of
            // scroll direction, since the whole estimated block was above it.
            itemStart < scrollOffset
          ) : (
            // Re-measurement: only compensate an item that is ENTIRELY above the
            // fold. An item that merely *spans* the fold (top above, bottom
            // below — e.g. a streaming chat message growing at its bottom)
            // changes size *below* the anchor point, so shifting scrollTop by the
            // delta would drag the viewport downward on every growth (#1218).
            // Also skip during backward scroll to avoid the "items jump while
            // scrolling up" cascade.
            itemStart + itemSize <= scrollOffset && this.scrollDirection !== "backward"
          );
          const shouldAdjustScroll = !isSmoothScroll(this.scrollState) && (this.shouldAdjustScrollPositionOnItemSizeChange !== void 0 ? this.shouldAdjustScrollPositionOnItemSizeChange(
            // The callback expects a VirtualItem; build one lazily only
            // when the consumer actually supplied a custom predicate.
            this.measurementsCache[index] ?? {
              index,
              key,
              start: itemStart,
              size: cachedSize,
              end: itemStart + cachedSize,
              lane: 0
            },
            delta,
            this
          ) : defaultShouldAdjust);
          if (this.pendingMin === null || index < this.pendingMin) {
            this.pendingMin = index;
          }
          this.itemSizeCache.set(key, size);
          this.itemSizeCacheVersion++;
          let adjustedSync = false;
          if (!this._awaitingCommandReadBack()) {
            if (wasAtEnd) {
              adjustedSync = this.applyScrollAdjustment(
                this._getLayoutTotalSize() - prevTotalSize
              );
            } else if (shouldAdjustScroll) {
              adjustedSync = this.applyScrollAdjustment(delta);
            }
          }
          if (this._resizeBatch) {
            this._resizeBatch.notify = true;
            (_c = this._resizeBatch).sync || (_c.sync = adjustedSync);
            return;
          }
          this.notify(adjustedSync);
          this._noteClampMax();
          this._flushHoldIfReady(true);
          this._retryClampedAdjustment();
        }
      };
      this.getVirtualItems = memo(
        () => [this.getVirtualIndexes(), this.getMeasurements(), this._holdOffset],
        (indexes, measurements, hold) => {
          const virtualItems = [];
          for (let k2 = 0, len = indexes.length; k2 < len; k2++) {
            const i3 = indexes[k2];
            const measurement = measurements[i3];
            virtualItems.push(
              hold === 0 ? measurement : {
                ...measurement,
                start: measurement.start - hold,
                end: measurement.end - hold
              }
            );
          }
          return virtualItems;
        },
        {
          key: "getVirtualItems",
          debug: () => this.options.debug
        }
      );
      this.getVirtualItemForOffset = (offset) => {
        var _a;
        const measurements = this.getMeasurements();
        if (measurements.length === 0) {
          return void 0;
        }
        const flat = (_a = this._singleLaneMeasurements) == null ? void 0 : _a.flat;
        const useFlat = this.options.lanes === 1 && flat != null;
        const idx = findNearestBinarySearch(
          0,
          measurements.length - 1,
          useFlat ? (i3) => flat[i3 * 2] : (i3) => notUndefined(measurements[i3]).start,
          offset
        );
        return notUndefined(measurements[idx]);
      };
      this._noteClampMax = () => {
        if (!this._awaitingCommandReadBack()) return;
        const elementMax = this._elementMaxScrollOffset();
        if (elementMax === null) return;
        const write = this.pendingWrite;
        const max = Math.max(elementMax, 0) + this._holdOffset;
        if (max >= write.target) return;
        const lowMaxes = write.lowMaxes ?? (write.lowMaxes = []);
        if (lowMaxes[lowMaxes.length - 1] !== max) lowMaxes.push(max);
      };
      this.getMaxScrollOffset = () => (this._elementMaxScrollOffset() ?? 0) + this._holdOffset;
      this._toLayoutOffset = (elementOffset) => {
        var _a;
        let offset = elementOffset + this._holdOffset;
        if (((_a = this.pendingScrollAnchor) == null ? void 0 : _a.kind) === "anchor") {
          offset += this.pendingScrollAnchor.delta;
        }
        return offset;
      };
      this._elementMaxScrollOffset = () => {
        const el = this.scrollElement;
        if (el === null) return null;
        if ("scrollHeight" in el) {
          return this.options.horizontal ? el.scrollWidth - el.clientWidth : el.scrollHeight - el.clientHeight;
        }
        if ("document" in el) {
          const doc = el.document.documentElement;
          return this.options.horizontal ? doc.scrollWidth - el.innerWidth : doc.scrollHeight - el.innerHeight;
        }
        return null;
      };
      this._momentumStop = null;
      this._stopMomentum = (done) => {
        const el = this.scrollElement;
        const win = this.targetWindow;
        if (el === null || win === null) return;
        const scroller = "document" in el ? el.document.scrollingElement : el;
        if (!(scroller == null ? void 0 : scroller.style)) return;
        if (this._momentumStop) {
          this._momentumStop.done = done;
          return;
        }
        const { style } = scroller;
        const property = this.options.horizontal ? "overflow-x" : "overflow-y";
        const value = style.getPropertyValue(property);
        const priority = style.getPropertyPriority(property);
        const crossSize = () => this.options.horizontal ? scroller.clientHeight : scroller.clientWidth;
        const crossSizeBefore = crossSize();
        style.setProperty(property, "hidden", "important");
        if (crossSize() !== crossSizeBefore) {
          style.setProperty(property, value, priority);
          return;
        }
        const stop = {
          // False when the app replaced the hidden value: the fling may not
          // have stopped.
          restore: () => {
            if (style.getPropertyValue(property) !== "hidden" || style.getPropertyPriority(property) !== "important") {
              return false;
            }
            style.setProperty(property, value, priority);
            return true;
          },
          done
        };
        this._momentumStop = stop;
        win.requestAnimationFrame(
          () => win.requestAnimationFrame(() => {
            if (this._momentumStop !== stop) return;
            this._momentumStop = null;
            if (stop.restore()) stop.done();
          })
        );
      };
      this._clampedBy = (target) => {
        const elementMax = this._elementMaxScrollOffset();
        if (elementMax === null) return null;
        const maxAtWrite = elementMax + this._holdOffset;
        return target > maxAtWrite + 0.5 ? { target, maxAtWrite } : null;
      };
      this.getVirtualDistanceFromEnd = () => {
        return Math.max(
          this._getLayoutTotalSize() + this.options.scrollMargin - this.getSize() - this.getScrollOffset(),
          0
        );
      };
      this.getDistanceFromEnd = () => {
        return Math.max(this.getMaxScrollOffset() - this.getScrollOffset(), 0);
      };
      this.isAtEnd = (threshold = this.options.scrollEndThreshold) => {
        return this.getDistanceFromEnd() <= threshold;
      };
      this.getOffsetForAlignment = (toOffset, align, itemSize = 0) => {
        if (!this.scrollElement) return 0;
        const size = this.getSize();
        const scrollOffset = this.getScrollOffset();
        if (align === "auto") {
          align = toOffset >= scrollOffset + size ? "end" : "start";
        }
        if (align === "center") {
          toOffset += (itemSize - size) / 2;
        } else if (align === "end") {
          toOffset -= size;
        }
        const maxOffset = this.getMaxScrollOffset();
        return Math.max(Math.min(maxOffset, toOffset), 0);
      };
      this.getOffsetForIndex = (index, align = "auto") => {
        index = Math.max(0, Math.min(index, this.options.count - 1));
        const size = this.getSize();
        const scrollOffset = this.getScrollOffset();
        const item = this.getMeasurements()[index];
        if (!item) return;
        if (align === "auto") {
          if (item.end >= scrollOffset + size - this.options.scrollPaddingEnd) {
            align = "end";
          } else if (item.start <= scrollOffset + this.options.scrollPaddingStart) {
            align = "start";
          } else {
            return [scrollOffset, align];
          }
        }
        if (align === "end" && index === this.options.count - 1) {
          const maxOffset = this.getMaxScrollOffset();
          const toOffset2 = maxOffset - this.options.paddingEnd + this.options.scrollPaddingEnd;
          return [Math.max(Math.min(toOffset2, maxOffset), 0), align];
        }
        const toOffset = align === "end" ? item.end + this.options.scrollPaddingEnd : item.start - this.options.scrollPaddingStart;
        return [
          this.getOffsetForAlignment(toOffset, align, item.size),
          align
        ];
      };
      this.scrollToOffset = (toOffset, { align = "start", behavior = "auto" } = {}) => {
        this._startScroll(
          { index: null, align },
          this.getOffsetForAlignment(toOffset, align),
          behavior,
          "absolute"
        );
      };
      this.scrollToIndex = (index, {
        align: initialAlign = "auto",
        behavior = "auto"
      } = {}) => {
        index = Math.max(0, Math.min(index, this.options.count - 1));
        const offsetInfo = this.getOffsetForIndex(index, initialAlign);
        if (!offsetInfo) return;
        const [offset, align] = offsetInfo;
        this._startScroll({ index, align }, offset, behavior, "absolute");
      };
      this.scrollBy = (delta, { behavior = "auto" } = {}) => {
        const offset = this.getOffsetForAlignment(
          (this.getCommandWrittenOffset() ?? this.getScrollOffset()) + delta,
          "start"
        );
        this._startScroll(
          { index: null, align: "start" },
          offset,
          behavior,
          "relative"
        );
      };
      this.scrollToEnd = ({ behavior = "auto" } = {}) => {
        if (this.options.count > 0) {
          this._startScroll(
            { index: this.options.count - 1, align: "end", toEnd: true },
            Math.max(this.getMaxScrollOffset(), 0),
            behavior,
            "absolute"
          );
          return;
        }
        this.scrollToOffset(Math.max(this.getTotalSize() - this.getSize(), 0), {
          behavior
        });
      };
      this.cancelScroll = () => {
        if (this.rafId != null && this.targetWindow) {
          this.targetWindow.cancelAnimationFrame(this.rafId);
          this.rafId = null;
        }
        this.scrollState = null;
      };
      this.getTotalSize = () => Math.max(this._getLayoutTotalSize() - this._holdOffset, 0);
      this._getLayoutTotalSize = () => {
        var _a, _b;
        const measurements = this.getMeasurements();
        let end;
        if (measurements.length === 0) {
          end = this.options.paddingStart;
        } else if (this.options.lanes === 1) {
          const lastIdx = measurements.length - 1;
          const flat = (_a = this._singleLaneMeasurements) == null ? void 0 : _a.flat;
          if (flat != null) {
            end = flat[lastIdx * 2] + flat[lastIdx * 2 + 1];
          } else {
            end = ((_b = measurements[lastIdx]) == null ? void 0 : _b.end) ?? 0;
          }
        } else {
          const endByLane = Array(this.options.lanes).fill(null);
          let endIndex = measurements.length - 1;
          while (endIndex >= 0 && endByLane.some((val) => val === null)) {
            const item = measurements[endIndex];
            if (endByLane[item.lane] === null) {
              endByLane[item.lane] = item.end;
            }
            endIndex--;
          }
          end = Math.max(...endByLane.filter((val) => val !== null));
        }
        return Math.max(
          end - this.options.scrollMargin + this.options.paddingEnd,
          0
        );
      };
      this.takeSnapshot = () => {
        const snapshot = [];
        if (this.itemSizeCache.size === 0) return snapshot;
        const m3 = this.getMeasurements();
        for (const item of m3) {
          if (item && this.itemSizeCache.has(item.key)) {
            snapshot.push({
              index: item.index,
              key: item.key,
              start: item.start,
              size: item.size,
              end: item.end,
              lane: item.lane
            });
          }
        }
        return snapshot;
      };
      this._scrollToOffset = (offset, {
        adjustments,
        behavior
      } = {}) => {
        const write = {
          target: offset + (adjustments ?? 0),
          smooth: behavior === "smooth"
        };
        this.pendingWrite = write;
        this.options.scrollToFn(
          offset - this._holdOffset,
          { behavior, adjustments },
          this
        );
        return write;
      };
      this.getCommandWrittenOffset = () => this.scrollState !== null && this.pendingWrite !== null && !this.pendingWrite.smooth ? this.pendingWrite.target : null;
      this._awaitingCommandReadBack = () => {
        const writtenOffset = this.getCommandWrittenOffset();
        return !(isIOSWebKit() && this._iosGesture.dragging()) && writtenOffset !== null && !approxEqual(writtenOffset, this.getScrollOffset());
      };
      this._followOffsetTarget = (delta) => {
        if (this.scrollState !== null && this.scrollState.index == null) {
          this.scrollState.lastTargetOffset += delta;
        }
      };
      this.measure = () => {
        this.pendingMin = null;
        this.itemSizeCache.clear();
        this.laneAssignments.clear();
        this.itemSizeCacheVersion++;
        this.notify(false);
      };
      this.setOptions(opts);
    }
    /**
     * @deprecated Always 0: a scroll correction is folded into `scrollOffset`
     * at once, so there is never an outstanding adjustment to add to it. Read
     * `scrollOffset` alone.
     */
    get scrollAdjustments() {
      return 0;
    }
    // Returns `true` when it performed a synchronous `scrollTop` write this
    // tick, `false` when the delta was zero or the write was deferred (iOS).
    // `resizeItem` uses that to decide whether the follow-up `notify` must be
    // synchronous so the grown transforms commit in the same paint (#1227).
    applyScrollAdjustment(delta, behavior) {
      if (delta === 0) return false;
      if (this.options.debug) {
        console.info("correction", delta);
      }
      this._followOffsetTarget(delta);
      if (!this._canWriteScroll()) {
        this._holdOffset += delta;
        if (this.scrollOffset !== null) this.scrollOffset += delta;
        return true;
      } else {
        const offset = this.getScrollOffset();
        this._clampedAdjustment = this._clampedBy(offset + delta);
        const write = this._scrollToOffset(offset, {
          adjustments: delta,
          behavior
        });
        if (this.scrollOffset !== null) {
          if (this.pendingWrite === write) this.scrollOffset += delta;
          if (this.scrollOffset < 0) this.scrollOffset = 0;
        }
        return true;
      }
    }
    scheduleScrollReconcile() {
      if (!this.targetWindow) {
        this.scrollState = null;
        return;
      }
      if (this.rafId != null) return;
      this.rafId = this.targetWindow.requestAnimationFrame(() => {
        this.rafId = null;
        this.reconcileScroll();
      });
    }
    getScrollStateTarget(state) {
      const offsetInfo = state.toEnd ? [Math.max(this.getMaxScrollOffset(), 0)] : state.index != null ? this.getOffsetForIndex(state.index, state.align) : void 0;
      return offsetInfo ? offsetInfo[0] : state.lastTargetOffset;
    }
    reconcileScroll() {
      if (!this.scrollState) return;
      const el = this.scrollElement;
      if (!el) return;
      const MAX_RECONCILE_MS = 5e3;
      if (this.now() - this.scrollState.startedAt > MAX_RECONCILE_MS) {
        this.scrollState = null;
        return;
      }
      if (this.scrollState.phase === "queued") {
        this.scheduleScrollReconcile();
        return;
      }
      this.getMeasurements();
      const targetOffset = this.getScrollStateTarget(this.scrollState);
      const STABLE_FRAMES = this.scrollState.index == null ? 1 : this.options.useAnimationFrameWithResizeObserver ? 3 : 2;
      const targetChanged = targetOffset !== this.scrollState.lastTargetOffset;
      if (!targetChanged && approxEqual(targetOffset, this.getScrollOffset())) {
        if (this.scrollState.phase === "smooth") {
          this.scrollState.phase = "smoothLanded";
        } else if (this.scrollState.phase === "smoothFinishing") {
          this.scrollState.phase = "instant";
        }
        this.scrollState.stableFrames++;
        if (this.scrollState.stableFrames >= STABLE_FRAMES) {
          if (this.getScrollOffset() !== targetOffset) {
            this._scrollToOffset(targetOffset, { behavior: "auto" });
          }
          this.scrollState = null;
          return;
        }
      } else {
        this.scrollState.stableFrames = 0;
        if (targetChanged) {
          const viewport = this.getSize() || 600;
          const distance = Math.abs(targetOffset - this.getScrollOffset());
          const keepSmooth = isSmoothScroll(this.scrollState) && distance > viewport;
          this.scrollState.lastTargetOffset = targetOffset;
          if (keepSmooth) {
            this.scrollState.phase = "smooth";
          } else if (this.scrollState.phase === "smooth") {
            this.scrollState.phase = "smoothFinishing";
          } else if (this.scrollState.phase === "smoothLanded") {
            this.scrollState.phase = "instant";
          }
          this._scrollToOffset(targetOffset, {
            behavior: keepSmooth ? "smooth" : "auto"
          });
        }
      }
      this.scheduleScrollReconcile();
    }
    // Every scroll command starts here: it becomes the in-flight command,
    // writes its first target and leaves reconcile to retarget and retire it.
    //
    // Targets are layout offsets. A held correction is not dropped by a
    // command: the write lands the element `_holdOffset` short of the target,
    // under the rows exposed shifted by the same amount, and the flush moves
    // both together once a write is possible.
    //
    // An index or end target that is already at its offset starts a smooth
    // scroll as landed; an offset target never does, so its first scroll
    // event is read as the user's (see the scroll handler in `_willUpdate`).
    _startScroll(target, offset, behavior, kind) {
      this.pendingScrollAnchor = null;
      this._clampedAdjustment = null;
      const tail = this._iosGesture.tail();
      if (kind === "absolute" && tail !== null) {
        if (tail === "fling" && momentumOverridesWrites()) {
          this._stopMomentum(() => {
            const state = this.scrollState;
            if ((state == null ? void 0 : state.phase) !== "queued" || // A finger came down: it owns the scroll until it lifts.
            this._iosGesture.tail() !== "fling" || // In a bounce WebKit can drop the write (#1287): the tail
            // decides, as without the stop. (Not `flingCaught`: our stop
            // also ends the fling at speed, so a slow frame would read as
            // a catch and the tail would drop the command.)
            this._reportedOverscroll) {
              return;
            }
            this._iosGesture.end();
            this._flushHoldIfReady(true);
            this._writeAwaitingCommand();
          });
          this.scrollState = {
            ...target,
            startedAt: this.now(),
            lastTargetOffset: offset,
            stableFrames: 0,
            phase: "queued",
            behavior,
            samples: []
          };
          this.scheduleScrollReconcile();
          return;
        }
        this._iosGesture.end();
      }
      this.scrollState = {
        ...target,
        startedAt: this.now(),
        lastTargetOffset: offset,
        stableFrames: 0,
        behavior,
        phase: initialScrollPhase(
          behavior,
          target.index != null && approxEqual(offset, this.getScrollOffset())
        )
      };
      this._scrollToOffset(offset, { behavior });
      this.scheduleScrollReconcile();
    }
  };
  var findNearestBinarySearch = (low, high, getCurrentValue, value) => {
    while (low <= high) {
      const middle = (low + high) / 2 | 0;
      const currentValue = getCurrentValue(middle);
      if (currentValue < value) {
        low = middle + 1;
      } else if (currentValue > value) {
        high = middle - 1;
      } else {
        return middle;
      }
    }
    if (low > 0) {
      return low - 1;
    } else {
      return 0;
    }
  };
  function findNearestBinarySearchFlat(flat, high, value) {
    let low = 0;
    while (low <= high) {
      const middle = (low + high) / 2 | 0;
      const currentValue = flat[middle * 2];
      if (currentValue < value) {
        low = middle + 1;
      } else if (currentValue > value) {
        high = middle - 1;
      } else {
        return middle;
      }
    }
    return low > 0 ? low - 1 : 0;
  }
  function calculateRangeImpl(measurements, outerSize, scrollOffset, lanes, flat) {
    const lastIndex = measurements.length - 1;
    if (measurements.length <= lanes) {
      return { startIndex: 0, endIndex: lastIndex };
    }
    if (lanes === 1 && flat !== null) {
      const startIndex2 = findNearestBinarySearchFlat(
        flat,
        lastIndex,
        scrollOffset
      );
      let endIndex2 = startIndex2;
      const limit = scrollOffset + outerSize;
      while (endIndex2 < lastIndex && flat[endIndex2 * 2] + flat[endIndex2 * 2 + 1] < limit) {
        endIndex2++;
      }
      return { startIndex: startIndex2, endIndex: endIndex2 };
    }
    const getStart = (index) => measurements[index].start;
    let startIndex = findNearestBinarySearch(0, lastIndex, getStart, scrollOffset);
    let endIndex = startIndex;
    if (lanes === 1) {
      while (endIndex < lastIndex && measurements[endIndex].end < scrollOffset + outerSize) {
        endIndex++;
      }
    } else if (lanes > 1) {
      const endPerLane = Array(lanes).fill(0);
      while (endIndex < lastIndex && endPerLane.some((pos) => pos < scrollOffset + outerSize)) {
        const item = measurements[endIndex];
        endPerLane[item.lane] = item.end;
        endIndex++;
      }
      const startPerLane = Array(lanes).fill(scrollOffset + outerSize);
      while (startIndex >= 0 && startPerLane.some((pos) => pos >= scrollOffset)) {
        const item = measurements[startIndex];
        startPerLane[item.lane] = item.start;
        startIndex--;
      }
      startIndex = Math.max(0, startIndex - startIndex % lanes);
      endIndex = Math.min(lastIndex, endIndex + (lanes - 1 - endIndex % lanes));
    }
    return { startIndex, endIndex };
  }

  // src/parts/virtual.ts
  var UNDER_HEADER = 56;
  var MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];
  var useGoal = (view, list) => {
    const goal = T2(null);
    const [, redraw] = _2((turn) => turn + 1, 0);
    A2(() => {
      const forget = () => {
        goal.current = null;
      };
      for (const move of MOVES) addEventListener(move, forget, { capture: true, passive: true });
      return () => {
        for (const move of MOVES) removeEventListener(move, forget, { capture: true });
      };
    }, []);
    F2(() => {
      if (!goal.current) return;
      const { at, offset } = goal.current;
      const [next] = view.getOffsetForIndex(at, "start") ?? [offset];
      if (next !== offset) {
        goal.current.offset = next;
        view.scrollToIndex(at, { align: "start" });
      }
      const element = list.current?.querySelector(`[data-index="${at}"]`);
      if (element && !element.contains(document.activeElement)) element.focus({ preventScroll: true });
    });
    return b((at) => {
      goal.current = { at, offset: null };
      redraw(0);
    }, []);
  };
  var useWindow = (count2, scrollMargin, estimate) => {
    const [, redraw] = _2((turn) => turn + 1, 0);
    const options = {
      count: count2,
      estimateSize: estimate,
      scrollMargin,
      scrollPaddingStart: UNDER_HEADER,
      overscan: 6,
      getScrollElement: () => window,
      initialOffset: () => scrollY,
      initialRect: { width: innerWidth, height: innerHeight },
      observeElementRect: observeWindowRect,
      observeElementOffset: observeWindowOffset,
      scrollToFn: windowScroll,
      measureElement,
      onChange: () => redraw(0)
    };
    const [virtualizer] = d2(() => new Virtualizer(options));
    virtualizer.setOptions(options);
    F2(() => virtualizer._didMount(), [virtualizer]);
    F2(() => virtualizer._willUpdate());
    return virtualizer;
  };

  // src/pages/conversation.tsx
  var OUTLINE = 500;
  var SHOWN_CHARACTERS = 4e3;
  var AFTER_HIT = 2e3;
  var MOST_BYTES_TO_HIT = 4e6;
  var HEAD_CHARACTERS = 200;
  var Texts = class {
    items = /* @__PURE__ */ new Map();
    of(item) {
      let loaded = this.items.get(item.at);
      if (!loaded) {
        loaded = { text: null, shown: SHOWN_CHARACTERS, opened: item.kind !== "reasoning" };
        this.items.set(item.at, loaded);
      }
      return loaded;
    }
  };
  var Conversation = ({ spot, target, markdown, hits, hit }) => {
    const first = useReply(request("outline", spot.places, { row: spot.row, start: 0 }));
    const late = useLate(first.loading);
    const [pages, setPages] = d2(/* @__PURE__ */ new Map());
    const [error, setError] = d2(null);
    const asked = T2(/* @__PURE__ */ new Set());
    const texts = w2(() => new Texts(), [spot]);
    const list = T2(null);
    const [margin, setMargin] = d2(0);
    const total = first.data?.total ?? 0;
    const itemAt = (at) => (at < OUTLINE ? first.data?.items[at] : pages.get(Math.floor(at / OUTLINE))?.[at % OUTLINE]) ?? null;
    const estimate = b((at) => estimated(itemAt(at)), [first.data, pages]);
    const view = useWindow(total, margin, estimate);
    F2(() => {
      const top = (list.current?.getBoundingClientRect().top ?? 0) + scrollY;
      if (Math.abs(top - margin) > 1) setMargin(top);
    });
    const shown = view.getVirtualItems();
    const needed = [...new Set(shown.map((item) => Math.floor(item.index / OUTLINE)))].filter((page2) => page2 > 0);
    A2(() => {
      for (const page2 of needed) {
        if (asked.current.has(page2)) continue;
        asked.current.add(page2);
        askReply(request("outline", spot.places, { row: spot.row, start: page2 * OUTLINE })).then(({ data }) => setPages((before) => new Map(before).set(page2, data.items))).catch((cause) => setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) })));
      }
    }, [needed.join(","), spot]);
    const open = useGoal(view, list);
    A2(() => {
      if (total && target !== null) open(Math.min(target, total - 1));
    }, [total > 0, target]);
    const move = (step) => {
      const focused = document.activeElement?.closest("[data-index]")?.getAttribute("data-index");
      const at = focused === null || focused === void 0 ? step > 0 ? (shown.find((item) => item.end > scrollY + 60)?.index ?? 0) - 1 : 0 : Number(focused);
      const next = Math.min(total - 1, Math.max(0, at + step));
      setParameters({ item: String(next) });
      open(next);
    };
    useKeys({ j: () => move(1), k: () => move(-1) });
    return /* @__PURE__ */ a3($, { children: [
      (first.error ?? error) && /* @__PURE__ */ a3(ErrorBox, { error: first.error ?? error }),
      late && !first.data && !first.error && /* @__PURE__ */ a3("p", { class: "quiet waiting", children: "Reading the transcript…" }),
      first.data && total === 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: "This row holds no conversation." }),
      shown.length < total && /* @__PURE__ */ a3("p", { class: "print-only", children: [
        "Items ",
        (shown[0]?.index ?? 0) + 1,
        " to ",
        (shown[shown.length - 1]?.index ?? 0) + 1,
        " of ",
        count(total),
        ": those near the screen. The download of the row has all."
      ] }),
      /* @__PURE__ */ a3("ol", { class: "conversation", "aria-busy": first.loading, ref: list, style: { height: `${view.getTotalSize()}px` }, "aria-label": `Conversation of ${count(total)} items`, children: shown.map((place) => {
        const item = itemAt(place.index);
        return /* @__PURE__ */ a3(
          "li",
          {
            "data-index": place.index,
            ref: (element) => view.measureElement(element),
            tabIndex: -1,
            "aria-setsize": total,
            "aria-posinset": place.index + 1,
            style: { transform: `translateY(${place.start - margin}px)` },
            class: item ? `entry ${kindClass(item.kind)}` : "entry",
            children: item ? /* @__PURE__ */ a3(
              Item2,
              {
                item,
                loaded: texts.of(item),
                spot,
                markdown,
                hits,
                hit: hit?.at === item.at ? hit : null,
                isFirstOutput: item.part === "output" && itemAt(item.at - 1)?.part !== "output",
                open
              }
            ) : /* @__PURE__ */ a3("p", { class: "quiet", children: "…" })
          },
          place.index
        );
      }) })
    ] });
  };
  var KINDS = /* @__PURE__ */ new Set(["user", "assistant", "system", "developer", "tool", "reasoning", "call", "result"]);
  var kindClass = (kind) => KINDS.has(kind) ? kind : "other";
  var estimated = (item) => {
    if (!item) return 80;
    const lines = Math.min(SHOWN_CHARACTERS, item.size) / 90;
    return item.kind === "reasoning" ? 48 : 52 + 22 * Math.ceil(lines);
  };
  var TITLES = { call: "calls", result: "result", reasoning: "reasoning", other: "item" };
  var Item2 = ({ item, loaded, spot, markdown, hits, hit, isFirstOutput, open }) => {
    const [, redraw] = d2(0);
    const [error, setError] = d2(null);
    const changed = () => redraw((turn) => turn + 1);
    const isWhole = w2(() => [...item.head].length < HEAD_CHARACTERS, [item]);
    const load = (start, signal) => askReply(request("item", spot.places, { row: spot.row, at: item.at, start }), signal).then(({ data: reply }) => {
      const before = loaded.text;
      const follows = before && before.end === reply.start;
      loaded.text = follows ? { ...before, end: reply.end, text: before.text + reply.text } : reply;
      changed();
    }).catch((cause) => {
      if (!signal?.aborted) setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) }));
    });
    const text = loaded.text?.text ?? item.head;
    const needsText = loaded.opened && (!isWhole || item.images > 0) && !loaded.text;
    const reached = loaded.text?.end ?? 0;
    const isBefore = hit !== null && loaded.text !== null && hit.end > text.length && reached < Math.min(loaded.text.size, MOST_BYTES_TO_HIT);
    A2(() => {
      if (!needsText && !isBefore) return void 0;
      const stop = new AbortController();
      void load(needsText ? 0 : reached, stop.signal);
      return () => stop.abort();
    }, [needsText, isBefore, reached]);
    const marks = [...item.found.map(markOf), ...hits.filter((other) => other.at === item.at).map((other) => ({ ...other, name: "hit" }))];
    const limit = hit ? Math.max(loaded.shown, hit.end + AFTER_HIT) : loaded.shown;
    const body = /* @__PURE__ */ a3($, { children: [
      error && /* @__PURE__ */ a3(ErrorBox, { error }),
      hit && hit.end > text.length && loaded.text && !isBefore && /* @__PURE__ */ a3("p", { class: "theirs far", dir: "auto", children: [
        "… ",
        visible(hit.excerpt),
        " …"
      ] }),
      item.size > 0 && (markdown && (item.kind === "assistant" || item.kind === "user") && !hit ? /* @__PURE__ */ a3(Markdown, { text: text.slice(0, limit) }) : /* @__PURE__ */ a3(Body, { text: text.slice(0, limit), marks, label: `${item.kind} ${item.at}` })),
      /* @__PURE__ */ a3(More, { loaded, text, limit, load, changed }),
      loaded.text?.images.map((image) => /* @__PURE__ */ a3(Image, { image, item, spot }, image.part))
    ] });
    const reasons = [...new Set(item.found.map((mark) => `${mark.kind}: ${mark.field}`))];
    return /* @__PURE__ */ a3("article", { "aria-label": `${item.kind} ${item.name}`, children: [
      isFirstOutput && /* @__PURE__ */ a3("p", { class: "boundary", children: "output of the model and its tools" }),
      /* @__PURE__ */ a3("h4", { children: [
        /* @__PURE__ */ a3("span", { class: "kind", children: TITLES[item.kind] ?? visible(item.kind) }),
        item.name && /* @__PURE__ */ a3("code", { children: /* @__PURE__ */ a3("bdi", { dir: "auto", children: visible(item.name) }) }),
        item.pair !== null && /* @__PURE__ */ a3("button", { type: "button", class: "bare", onClick: () => open(item.pair ?? 0), children: [
          item.kind === "call" ? "its result" : "its call",
          " (item ",
          item.pair,
          ")"
        ] }),
        item.unpaired && /* @__PURE__ */ a3("span", { class: "problem", children: item.kind === "call" ? "no result in this row" : "no call in this row" }),
        item.size > SHOWN_CHARACTERS && /* @__PURE__ */ a3("span", { children: bytes(item.size) }),
        reasons.map((reason) => /* @__PURE__ */ a3("span", { class: reason.startsWith("earned") ? "earned" : "found", children: visible(reason) }, reason)),
        /* @__PURE__ */ a3("a", { class: "at", href: placeOfItem2(item.at), "aria-label": `Link to item ${item.at}`, children: item.at })
      ] }),
      item.kind === "reasoning" ? /* @__PURE__ */ a3(
        "details",
        {
          open: loaded.opened || hit !== null,
          onToggle: (event) => {
            loaded.opened = event.currentTarget.open;
            changed();
          },
          children: [
            /* @__PURE__ */ a3("summary", { children: loaded.opened ? "Fold" : `Read ${bytes(item.size)}` }),
            loaded.opened && body
          ]
        }
      ) : body
    ] });
  };
  var placeOfItem2 = (at) => {
    const search = new URLSearchParams(location.search);
    search.set("item", String(at));
    return `${location.pathname}?${search}`;
  };
  var markOf = (mark) => ({ start: mark.start, end: mark.end, name: mark.kind === "earned by" ? "earned" : "found" });
  var More = ({ loaded, text, limit, load, changed }) => {
    const left = loaded.text ? loaded.text.size - loaded.text.end : 0;
    if (text.length > limit) {
      return /* @__PURE__ */ a3(
        "button",
        {
          type: "button",
          class: "cut",
          onClick: () => {
            loaded.shown = text.length;
            changed();
          },
          children: [
            count(text.length - limit),
            " more characters",
            left > 0 ? `, and then ${bytes(left)}` : "",
            ": show them"
          ]
        }
      );
    }
    if (left <= 0) return null;
    return /* @__PURE__ */ a3(
      "button",
      {
        type: "button",
        class: "cut",
        onClick: () => {
          loaded.shown = Number.MAX_SAFE_INTEGER;
          void load(loaded.text?.end ?? 0);
        },
        children: [
          bytes(left),
          " more: show the next part"
        ]
      }
    );
  };
  var Body = ({ text, marks, label }) => {
    const pieces = w2(() => marked(text, marks), [text, marks.map((mark) => `${mark.start}${mark.name}`).join()]);
    return /* @__PURE__ */ a3("pre", { class: "theirs", dir: "auto", tabIndex: 0, role: "region", "aria-label": visible(label), children: pieces.map((piece, at) => {
      const text2 = /* @__PURE__ */ a3(Coloured, { text: piece.text }, at);
      return piece.name ? /* @__PURE__ */ a3("mark", { class: piece.name, children: text2 }, at) : text2;
    }) });
  };
  var marked = (text, marks) => {
    const pieces = [];
    let at = 0;
    for (const mark of [...marks].sort((a4, b2) => a4.start - b2.start)) {
      const start = Math.max(at, mark.start);
      if (mark.end <= start || start >= text.length) continue;
      pieces.push({ text: text.slice(at, start), name: "" }, { text: text.slice(start, mark.end), name: mark.name });
      at = mark.end;
    }
    pieces.push({ text: text.slice(at), name: "" });
    return pieces.filter((piece) => piece.text);
  };
  var Image = ({ image, item, spot }) => {
    const [address, setAddress] = d2(null);
    const [error, setError] = d2(null);
    A2(() => {
      if (!image.type) return void 0;
      const stop = new AbortController();
      let made = null;
      askBlob(request("image", spot.places, { row: spot.row, at: item.at, part: image.part }), stop.signal).then((blob) => {
        made = URL.createObjectURL(blob);
        setAddress(made);
      }).catch((cause) => {
        if (!stop.signal.aborted) setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) }));
      });
      return () => {
        stop.abort();
        if (made) URL.revokeObjectURL(made);
      };
    }, [image, item, spot]);
    if (error) return /* @__PURE__ */ a3(ErrorBox, { error });
    if (!image.type) return /* @__PURE__ */ a3("p", { class: "theirs picture", children: visible(image.text) });
    const text = `Image ${image.part + 1} of item ${item.at}: ${image.type.slice(6)}, ${bytes(image.bytes)}`;
    return /* @__PURE__ */ a3("figure", { class: "theirs picture", children: [
      address && /* @__PURE__ */ a3("img", { src: address, alt: text }),
      /* @__PURE__ */ a3("figcaption", { children: text })
    ] });
  };

  // src/pages/raw.tsx
  var RANGE = 65536;
  var MEMBERS = 500;
  var RawView = ({ spot }) => {
    const start = Number(usePlace().search.get("from") ?? 0);
    const goTo = (byte) => setParameters({ from: byte > 0 ? String(byte) : null });
    const reply = useReply(request("raw", spot.places, { row: spot.row, start }));
    return /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (range) => /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": "Ranges of the row", children: [
        /* @__PURE__ */ a3("button", { type: "button", disabled: range.start === 0, onClick: () => goTo(range.start - RANGE), children: "Previous" }),
        /* @__PURE__ */ a3("p", { role: "status", children: [
          "bytes ",
          count(range.start),
          " to ",
          count(range.end),
          " of ",
          count(range.size)
        ] }),
        /* @__PURE__ */ a3("button", { type: "button", disabled: range.end >= range.size, onClick: () => goTo(range.end), children: "Next" })
      ] }),
      /* @__PURE__ */ a3("pre", { class: "theirs raw", dir: "auto", tabIndex: 0, role: "region", "aria-label": "Bytes of the row", children: visible(range.text) })
    ] }) });
  };
  var TreeView = ({ spot }) => /* @__PURE__ */ a3("section", { class: "first tree", children: /* @__PURE__ */ a3(Members, { spot, path: "" }) });
  var Members = ({ spot, path }) => {
    const [start, setStart] = d2(0);
    const reply = useReply(request("tree", spot.places, { row: spot.row, path, start }));
    return /* @__PURE__ */ a3(Panel, { reply, children: (tree) => /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("ul", { children: tree.entries.map((entry) => /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3(Entry, { entry, spot }) }, entry.path)) }),
      tree.total > MEMBERS && /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": `Members of ${path || "the row"}`, children: [
        /* @__PURE__ */ a3("button", { type: "button", disabled: start === 0, onClick: () => setStart(start - MEMBERS), children: "Previous" }),
        /* @__PURE__ */ a3("p", { children: [
          count(start + 1),
          " to ",
          count(start + tree.entries.length),
          " of ",
          count(tree.total)
        ] }),
        /* @__PURE__ */ a3("button", { type: "button", disabled: start + MEMBERS >= tree.total, onClick: () => setStart(start + MEMBERS), children: "Next" })
      ] })
    ] }) });
  };
  var Entry = ({ entry, spot }) => {
    const [isOpen, setOpen] = d2(false);
    const key = /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", children: visible(entry.key) });
    if (entry.kind === "object" || entry.kind === "array") {
      const size = entry.kind === "object" ? amount(entry.size, "member") : `${count(entry.size)} ${entry.size === 1 ? "entry" : "entries"}`;
      return /* @__PURE__ */ a3("details", { onToggle: (event) => setOpen(event.currentTarget.open), children: [
        /* @__PURE__ */ a3("summary", { children: [
          key,
          " ",
          /* @__PURE__ */ a3("span", { class: "quiet", children: size })
        ] }),
        isOpen && /* @__PURE__ */ a3(Members, { spot, path: entry.path })
      ] });
    }
    return /* @__PURE__ */ a3("p", { class: "leaf", children: [
      key,
      ":",
      " ",
      /* @__PURE__ */ a3("bdi", { class: `theirs ${entry.kind}`, dir: "auto", children: visible(entry.text) }),
      entry.kind === "text" && entry.size > entry.text.length && /* @__PURE__ */ a3("span", { class: "quiet", children: [
        " … ",
        count(entry.size),
        " characters"
      ] })
    ] });
  };

  // src/pages/tokens.tsx
  var SIZE2 = 2e3;
  var STEPS = [-0.05, -0.3, -1, -2.5, -5];
  var level = (value) => {
    if (value === null || value === void 0) return "lp-none";
    const at = STEPS.findIndex((step) => value >= step);
    return `lp-${at < 0 ? STEPS.length : at}`;
  };
  var Tokens = ({ spot, token }) => {
    const reply = useReply(request("tokens", spot.places, { row: spot.row }));
    const [turn, position] = (token ?? "").split(".").map(Number);
    return /* @__PURE__ */ a3(Panel, { reply, class: "first tokens", children: (data) => data.turns.length === 0 ? /* @__PURE__ */ a3(Notes, { texts: [data.absent || "This row holds no token ids."], title: "No tokens." }) : /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(Notes, { texts: data.findings, title: "Token ids." }),
      /* @__PURE__ */ a3(Legend, { text: data.text }),
      data.turns.map((line) => /* @__PURE__ */ a3(Turn, { line, spot, opened: token === null ? line.turn === data.turns[0]?.turn : line.turn === turn, position: line.turn === turn ? position ?? null : null }, line.turn))
    ] }) });
  };
  var Legend = ({ text }) => /* @__PURE__ */ a3("p", { class: "legend token-legend", children: [
    /* @__PURE__ */ a3("span", { children: "Log prob:" }),
    [...STEPS, null].map((step, at) => /* @__PURE__ */ a3("span", { class: `token lp-${at}`, children: step === null ? `below ${STEPS[at - 1]}` : at === 0 ? `${step} to 0` : `${step} to ${STEPS[at - 1]}` }, at)),
    /* @__PURE__ */ a3("span", { class: "token lp-none", children: "none" }),
    /* @__PURE__ */ a3("span", { children: [
      /* @__PURE__ */ a3("span", { class: "token lp-none trained", children: "underlined" }),
      " trained on (mask 1)"
    ] }),
    !text && /* @__PURE__ */ a3("span", { class: "quiet", children: "Ids as text need --tokenizer." })
  ] });
  var Turn = ({ line, spot, opened, position }) => {
    const [isOpen, setOpen] = d2(opened);
    const total = line.prompt_ids + line.generation_ids;
    return /* @__PURE__ */ a3("details", { class: "turn", open: isOpen, onToggle: (event) => setOpen(event.currentTarget.open), children: [
      /* @__PURE__ */ a3("summary", { children: [
        /* @__PURE__ */ a3("b", { children: [
          "Turn ",
          line.turn
        ] }),
        " ",
        count(line.prompt_ids),
        " of the prompt, ",
        count(line.generation_ids),
        " generated",
        line.mean_log_prob !== null && `, mean log prob ${decimal(line.mean_log_prob)}`,
        line.weight_version && `, weights ${visible(line.weight_version)}`,
        line.break_at !== null && /* @__PURE__ */ a3("span", { class: "bad", children: " break" }),
        line.continuity && /* @__PURE__ */ a3("span", { class: line.continuity === "broken" ? "bad" : "quiet", children: [
          " continuity: ",
          visible(line.continuity)
        ] })
      ] }),
      line.ids_before > 0 && /* @__PURE__ */ a3("p", { class: line.break_at === null ? "quiet" : "bad", children: joining(line) }),
      line.reason && /* @__PURE__ */ a3("p", { children: visible(line.reason) }),
      /* @__PURE__ */ a3(Notes, { texts: line.findings, title: "Finding." }),
      isOpen && /* @__PURE__ */ a3(Range, { turn: line.turn, total, spot, first: position === null ? line.prompt_ids : position, chosen: position })
    ] });
  };
  var joining = ({ ids_before: before, break_at: at }) => at === null ? `Continues: the prompt starts with all ${count(before)} ids of the turn before, so that both are one sequence.` : `Break: the prompt does not continue the ${count(before)} ids of the turn before; position ${count(at)} differs. A new sequence begins here.`;
  var Range = ({ turn, total, spot, first, chosen }) => {
    const start = Math.floor(first / SIZE2) * SIZE2;
    const goTo = (position) => setParameters({ token: `${turn}.${position}` });
    const reply = useReply(request("tokenRange", { ...spot.places, turn }, { row: spot.row, start }));
    return /* @__PURE__ */ a3(Panel, { reply, children: (range) => /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(DenseLine, { values: range.log_probs, start: range.start, label: "Log prob by position; the list below has the numbers", title: "position of the token; up is its log prob" }),
      /* @__PURE__ */ a3(Cells, { range, turn, chosen }),
      total > SIZE2 && /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": `Tokens of turn ${turn}`, children: [
        /* @__PURE__ */ a3("button", { type: "button", disabled: start === 0, onClick: () => goTo(start - SIZE2), children: "Previous" }),
        /* @__PURE__ */ a3("p", { children: [
          count(range.start + 1),
          " to ",
          count(range.start + range.ids.length),
          " of ",
          count(range.total)
        ] }),
        /* @__PURE__ */ a3("button", { type: "button", disabled: start + SIZE2 >= total, onClick: () => goTo(start + SIZE2), children: "Next" })
      ] })
    ] }) });
  };
  var Cells = ({ range, turn, chosen }) => {
    const list = T2(null);
    A2(() => {
      const cell = list.current?.querySelector(chosen === null ? ".begins" : '[aria-current="true"]');
      if (cell && list.current) list.current.scrollTop = cell.offsetTop - list.current.offsetTop - (chosen === null ? 60 : 200);
    }, [range, chosen]);
    const last = range.start + range.ids.length - 1;
    const choose = (event) => {
      const at = chosen ?? Math.max(range.start, range.prompt_ids) - 1;
      const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: range.start, End: last };
      const next = places[event.key];
      if (next === void 0) return;
      event.preventDefault();
      setParameters({ token: `${turn}.${Math.min(last, Math.max(range.start, next))}` });
    };
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(
        "ol",
        {
          class: "token-cells",
          ref: list,
          start: range.start,
          tabIndex: 0,
          role: "list",
          "aria-label": `Tokens of turn ${turn}; arrows choose one`,
          onKeyDown: choose,
          onClick: (event) => {
            const at = event.target.closest("[data-at]")?.getAttribute("data-at");
            if (at) setParameters({ token: `${turn}.${at}` });
          },
          children: range.ids.map((id, at) => {
            const position = range.start + at;
            const value = range.log_probs[at];
            const isTrained = range.mask[at] === 1;
            const text = range.texts[at];
            const tip = tokenText(range, at);
            return /* @__PURE__ */ a3(
              "li",
              {
                "data-at": position,
                "data-tip": tip,
                "aria-current": position === chosen ? "true" : void 0,
                class: `token ${level(value)}${isTrained ? " trained" : ""}${position === range.prompt_ids ? " begins" : ""}`,
                children: [
                  text !== void 0 && /* @__PURE__ */ a3("bdi", { class: "theirs", children: visible(text).replaceAll("\n", "⏎") }),
                  /* @__PURE__ */ a3("span", { children: id ?? "none" }),
                  /* @__PURE__ */ a3("small", { children: value === null || value === void 0 ? "" : shortLogProb(value) })
                ]
              },
              position
            );
          })
        }
      ),
      /* @__PURE__ */ a3("p", { class: "quiet", role: "status", children: chosen !== null && chosen >= range.start && chosen <= last ? `Chosen: ${tokenText(range, chosen - range.start)}.` : "" })
    ] });
  };
  var shortLogProb = (value) => Math.abs(value) < 5e-3 && value !== 0 ? value.toExponential(0) : number(Math.round(value * 100) / 100);
  var tokenText = (range, at) => {
    const value = range.log_probs[at];
    const logProb = value === null || value === void 0 ? "none" : decimal(value);
    return `position ${range.start + at}, id ${range.ids[at] ?? "none"}, log prob ${logProb}, ${range.mask[at] === 1 ? "trained on" : "not trained on"}`;
  };

  // src/pages/rollout.tsx
  var PANELS = [
    ["", "Conversation"],
    ["tokens", "Tokens"],
    ["raw", "Raw"],
    ["tree", "JSON"]
  ];
  var RolloutPage = ({ view, task, rollout, search }) => {
    const row = search.get("row");
    const spot = w2(() => ({ places: { run: view.id, task, rollout }, row }), [view.id, task, rollout, row]);
    const [q2, sort] = [search.get("q") ?? "", search.get("sort") ?? ""];
    const head = useReply(request("rollout", spot.places, { row, q: q2, sort }), { version: view.version });
    const group = useReply(task === "-" || !head.data ? null : request("task", { run: view.id, task }));
    const panel = search.get("panel") ?? "";
    const pair2 = search.get("diff");
    const members = group.data?.members ?? [];
    const options = { q: q2, sort, ...panel && { panel } };
    useRolloutKeys({ view, task, rollout, head: head.data, members, options, panel, isOff: pair2 !== null });
    if (pair2) return /* @__PURE__ */ a3(DiffView, { search }, pair2);
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(Panel, { reply: head, class: "rollout-head", children: (data) => /* @__PURE__ */ a3(Title, { head: data, run: view.id, options, members }) }),
      /* @__PURE__ */ a3("nav", { class: "tabs", "aria-label": "Views of the rollout", children: PANELS.map(([name, title2]) => /* @__PURE__ */ a3("a", { href: placeWith({ panel: name || null }), "aria-current": panel === name ? "page" : void 0, children: title2 }, name)) }),
      head.data && panel === "tokens" && /* @__PURE__ */ a3(Tokens, { spot, token: search.get("token") }),
      head.data && panel === "raw" && /* @__PURE__ */ a3(RawView, { spot }),
      head.data && panel === "tree" && /* @__PURE__ */ a3(TreeView, { spot }),
      head.data && panel === "" && /* @__PURE__ */ a3(Reading, { spot, search, head: head.data })
    ] });
  };
  var neighbourPlace = (run, key, options) => key ? rolloutPlace(run, key[0] ?? null, key[1] ?? null, options) : null;
  var counterpart = (members, rollout) => {
    const scored = members.filter((member) => member.reward !== null);
    const others = scored.filter((member) => String(member.rollout) !== rollout);
    const isBest = String(scored[0]?.rollout) === rollout;
    return (isBest ? others[others.length - 1] : others[0]) ?? null;
  };
  var diffPlace = (run, task, rollout, other) => placeWith({ diff: `${reference(run, task, rollout)},${reference(run, task, other.rollout, other.row)}` });
  var useRolloutKeys = ({ view, task, rollout, head, members, options, panel, isOff }) => {
    const to = (place) => place ? () => go(place) : void 0;
    const group = task === "-" ? null : taskPlace(view.id, task);
    const other = counterpart(members, rollout);
    const toggle = (name) => setParameters({ panel: panel === name ? null : name }, { replace: false });
    const up = options.q || options.sort || !group ? tablePlace(view.id, "rollouts", options.q, options.sort) : group;
    useKeys(
      isOff ? {} : {
        "[": to(neighbourPlace(view.id, head?.previous, options)),
        "]": to(neighbourPlace(view.id, head?.next, options)),
        g: to(group),
        d: to(other && diffPlace(view.id, task, rollout, other)),
        t: () => toggle("tokens"),
        r: () => toggle("raw"),
        Escape: () => panel ? setParameters({ panel: null }, { replace: false }) : go(up)
      }
    );
  };
  var Title = ({ head, run, options, members }) => {
    const rollout = String(head.rollout);
    const other = counterpart(members, rollout);
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("div", { class: "title-line", children: [
        /* @__PURE__ */ a3("h1", { class: "small", children: visible(keyText(head.task, head.rollout, head.row)) }),
        /* @__PURE__ */ a3("p", { class: "verdict", children: [
          head.reward === null ? /* @__PURE__ */ a3("b", { class: "bad", children: visible(head.outcome) }) : /* @__PURE__ */ a3($, { children: [
            "reward ",
            /* @__PURE__ */ a3("b", { children: decimal(head.reward) })
          ] }),
          head.truncated && /* @__PURE__ */ a3("span", { class: "problem", children: "cut off at a limit" })
        ] }),
        /* @__PURE__ */ a3("nav", { class: "neighbours", "aria-label": "Rollouts before and after, in the table", children: [
          /* @__PURE__ */ a3(Step, { place: neighbourPlace(run, head.previous, options), text: "Previous" }),
          /* @__PURE__ */ a3(Step, { place: neighbourPlace(run, head.next, options), text: "Next" })
        ] })
      ] }),
      /* @__PURE__ */ a3("p", { class: "facts", children: [
        head.agent && /* @__PURE__ */ a3("span", { children: [
          "agent ",
          /* @__PURE__ */ a3(Theirs, { text: head.agent, limit: 60 })
        ] }),
        head.model && /* @__PURE__ */ a3("span", { children: [
          "model ",
          /* @__PURE__ */ a3(Theirs, { text: head.model, limit: 60 })
        ] }),
        /* @__PURE__ */ a3("span", { children: [
          amount(head.prompt_items, "item"),
          " of prompt, ",
          count(head.output_items),
          " of output"
        ] }),
        /* @__PURE__ */ a3("span", { children: bytes(head.bytes) }),
        head.source === "failed" && /* @__PURE__ */ a3("span", { class: "problem", children: "from a failed attempt: no reward" }),
        head.source === "inputs" && /* @__PURE__ */ a3("span", { class: "problem", children: "only the inputs are there" }),
        head.marks.map((mark) => /* @__PURE__ */ a3("span", { class: "problem", children: visible(mark) }, mark))
      ] }),
      members.length > 1 && /* @__PURE__ */ a3("nav", { class: "siblings", "aria-label": "Rollouts of this task", children: [
        /* @__PURE__ */ a3("span", { class: "quiet", children: "Rollouts and rewards of the group:" }),
        members.map((member) => /* @__PURE__ */ a3(
          "a",
          {
            href: rolloutPlace(run, head.task, member.rollout, { row: member.row, ...options.panel && { panel: options.panel } }),
            "aria-current": String(member.rollout) === rollout ? "page" : void 0,
            class: member.reward === null ? "bad" : void 0,
            children: [
              member.rollout ?? `row ${member.row}`,
              ": ",
              /* @__PURE__ */ a3("b", { children: member.reward === null ? "–" : number(member.reward) })
            ]
          },
          member.row
        )),
        /* @__PURE__ */ a3("a", { href: taskPlace(run, head.task), children: "side by side" }),
        other && /* @__PURE__ */ a3("a", { href: diffPlace(run, String(head.task), rollout, other), children: [
          "diff to ",
          other.rollout ?? `row ${other.row}`
        ] })
      ] })
    ] });
  };
  var Step = ({ place, text }) => place ? /* @__PURE__ */ a3("a", { href: place, "aria-label": `${text} rollout`, children: text }) : /* @__PURE__ */ a3("span", { class: "quiet", children: text });
  var Reading = ({ spot, search, head }) => {
    const text = search.get("find") ?? "";
    const find = useReply(text ? request("findInTranscript", spot.places, { row: spot.row, text }) : null);
    const hits = text ? find.data?.hits ?? [] : [];
    const at = Number(search.get("hit") ?? 0);
    const hit = hits[at] ?? null;
    const item = search.get("item");
    const target = hit ? hit.at : item === null ? null : Number(item);
    const markdown = search.get("md") === "1";
    return /* @__PURE__ */ a3("div", { class: "reading-columns", children: [
      /* @__PURE__ */ a3("aside", { "aria-label": "Reward and evidence", children: [
        /* @__PURE__ */ a3(Reward, { spot }),
        head.attempts > 0 && /* @__PURE__ */ a3(AttemptList, { spot }),
        /* @__PURE__ */ a3(Rest, { spot, name: keyText(head.task, head.rollout, head.row) })
      ] }),
      /* @__PURE__ */ a3("div", { class: "conversation-part", children: [
        /* @__PURE__ */ a3("div", { class: "conversation-tools", children: [
          /* @__PURE__ */ a3(Find, { text, hits, at, more: find.data?.more ?? false, loading: find.loading }),
          /* @__PURE__ */ a3("button", { type: "button", "aria-pressed": markdown, onClick: () => setParameters({ md: markdown ? null : "1" }), children: "Markdown" })
        ] }),
        find.error && /* @__PURE__ */ a3(ErrorBox, { error: find.error }),
        /* @__PURE__ */ a3(Conversation, { spot, target, markdown, hits, hit })
      ] })
    ] });
  };
  var Rest = ({ spot, name }) => {
    const [opened, setOpened] = d2(() => matchMedia("(min-width: 52rem)").matches);
    return /* @__PURE__ */ a3("details", { class: "rest", open: opened, onToggle: (event) => setOpened(event.currentTarget.open), children: [
      /* @__PURE__ */ a3("summary", { children: "Times and commands" }),
      opened && /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3(TimeList, { spot }),
        /* @__PURE__ */ a3(CommandList, { spot, name })
      ] })
    ] });
  };
  var Find = ({ text, hits, at, more, loading }) => {
    const input = T2(null);
    const [typed, setTyped] = d2(text);
    useKeys({ "/": () => input.current?.select() });
    const to = (next) => setParameters({ hit: String((next + hits.length) % hits.length) });
    return /* @__PURE__ */ a3(
      "form",
      {
        class: "find",
        role: "search",
        onSubmit: (event) => {
          event.preventDefault();
          if (typed === text && hits.length > 0) to(at + 1);
          else setParameters({ find: typed || null, hit: null, item: null });
        },
        children: [
          /* @__PURE__ */ a3(
            "input",
            {
              ref: input,
              type: "search",
              "aria-label": "Find in this transcript",
              placeholder: "find in this transcript",
              value: typed,
              onInput: (event) => setTyped(event.currentTarget.value),
              onKeyDown: (event) => event.key === "Escape" && event.currentTarget.blur()
            }
          ),
          text && /* @__PURE__ */ a3($, { children: [
            /* @__PURE__ */ a3("span", { role: "status", children: loading ? "…" : hits.length === 0 ? "not there" : `${at + 1} of ${count(hits.length)}${more ? "+" : ""}` }),
            /* @__PURE__ */ a3("button", { type: "button", disabled: hits.length < 2, "aria-label": "Previous place", onClick: () => to(at - 1), children: "↑" }),
            /* @__PURE__ */ a3("button", { type: "button", disabled: hits.length < 2, "aria-label": "Next place", onClick: () => to(at + 1), children: "↓" })
          ] })
        ]
      }
    );
  };
  var Reward = ({ spot }) => {
    const reply = useReply(request("reward", spot.places, { row: spot.row }));
    return /* @__PURE__ */ a3(Panel, { reply, title: "Reward", class: "side-panel", children: (panel) => /* @__PURE__ */ a3(RewardBody, { panel }) });
  };
  var RewardBody = ({ panel }) => /* @__PURE__ */ a3($, { children: [
    panel.absent && /* @__PURE__ */ a3("p", { class: "quiet", children: visible(panel.absent) }),
    panel.reward !== null && /* @__PURE__ */ a3("p", { class: "total", children: number(panel.reward) }),
    panel.components.length > 0 && /* @__PURE__ */ a3("dl", { class: "components", children: panel.components.map((component) => /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: /* @__PURE__ */ a3(Theirs, { text: component.name, limit: 60 }) }),
      /* @__PURE__ */ a3("dd", { children: number(component.value) }),
      component.evidence.map((evidence) => /* @__PURE__ */ a3("dd", { class: "evidence", children: [
        /* @__PURE__ */ a3("a", { href: placeWith({ item: String(evidence.at) }), children: [
          "item ",
          evidence.at
        ] }),
        " ",
        /* @__PURE__ */ a3(Theirs, { text: evidence.text })
      ] }, `${evidence.at} ${evidence.start}`))
    ] }, component.name)) }),
    panel.fields.length > 0 && /* @__PURE__ */ a3("dl", { class: "fields", children: panel.fields.map((field) => /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: /* @__PURE__ */ a3(Theirs, { text: field.name, limit: 60 }) }),
      /* @__PURE__ */ a3("dd", { class: "theirs", dir: "auto", children: visible(field.value) })
    ] }, field.name)) }),
    panel.evaluations.map((evaluation, at) => /* @__PURE__ */ a3("section", { class: "judge", children: [
      /* @__PURE__ */ a3("h3", { children: [
        "Judge ",
        panel.evaluations.length > 1 ? at + 1 : "",
        " ",
        /* @__PURE__ */ a3(Theirs, { text: evaluation.verdict, limit: 60 })
      ] }),
      evaluation.question && /* @__PURE__ */ a3(Question, { text: evaluation.question }),
      evaluation.answer && /* @__PURE__ */ a3("details", { open: true, children: [
        /* @__PURE__ */ a3("summary", { children: "Answer" }),
        /* @__PURE__ */ a3(TheirBlock, { text: evaluation.answer, label: "Answer of the judge" })
      ] }),
      evaluation.fields.map((field) => /* @__PURE__ */ a3("p", { class: "quiet", children: [
        /* @__PURE__ */ a3(Theirs, { text: field.name }),
        ": ",
        /* @__PURE__ */ a3(Theirs, { text: field.value })
      ] }, field.name))
    ] }, at)),
    /* @__PURE__ */ a3(Notes, { texts: panel.notes })
  ] });
  var OPEN_QUESTION = 600;
  var END_LINES = 4;
  var Question = ({ text }) => {
    const isShort = text.length <= OPEN_QUESTION;
    const end = text.trimEnd().split("\n").filter((line) => line.trim()).slice(-END_LINES).join("\n").slice(-OPEN_QUESTION);
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("details", { open: isShort, children: [
        /* @__PURE__ */ a3("summary", { children: "Question" }),
        /* @__PURE__ */ a3(TheirBlock, { text, label: "Question to the judge" })
      ] }),
      !isShort && /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3("p", { class: "quiet", children: "It ends with:" }),
        /* @__PURE__ */ a3(TheirBlock, { text: end, label: "End of the question to the judge" })
      ] })
    ] });
  };
  var AttemptList = ({ spot }) => {
    const reply = useReply(request("attempts", spot.places));
    return /* @__PURE__ */ a3(Panel, { reply, title: "Failed attempts", class: "side-panel", children: (data) => /* @__PURE__ */ a3($, { children: [
      data.likely_cause && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3(Theirs, { text: sentence(data.likely_cause), limit: 1e3 }) }),
      data.next_action && /* @__PURE__ */ a3("p", { children: [
        /* @__PURE__ */ a3("b", { children: "Next: " }),
        /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", children: /* @__PURE__ */ a3(WithOptions, { text: sentence(visibleLine(data.next_action, 1e3)) }) })
      ] }),
      data.attempts.map((attempt) => /* @__PURE__ */ a3(AttemptEntry, { attempt }, attempt.number))
    ] }) });
  };
  var AttemptEntry = ({ attempt }) => /* @__PURE__ */ a3("section", { class: "attempt", children: [
    /* @__PURE__ */ a3("h3", { children: [
      "Attempt ",
      attempt.number,
      ": ",
      visible(attempt.failure_class),
      /* @__PURE__ */ a3("small", { children: [
        visible(attempt.layer),
        attempt.elapsed_s !== null && `, after ${duration(attempt.elapsed_s)}`
      ] })
    ] }),
    /* @__PURE__ */ a3(TheirBlock, { text: attempt.message, label: `Message of attempt ${attempt.number}` }),
    attempt.hint && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3(Theirs, { text: attempt.hint, limit: 1e3 }) }),
    attempt.hops.length > 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
      "through",
      " ",
      attempt.hops.map((hop, at) => /* @__PURE__ */ a3("span", { children: [
        at > 0 && " → ",
        /* @__PURE__ */ a3(Theirs, { text: hop })
      ] }, at))
    ] }),
    attempt.body && /* @__PURE__ */ a3("details", { children: [
      /* @__PURE__ */ a3("summary", { children: "Innermost body" }),
      /* @__PURE__ */ a3(TheirBlock, { text: attempt.body, label: "Innermost body" })
    ] }),
    attempt.judge_question && /* @__PURE__ */ a3("details", { children: [
      /* @__PURE__ */ a3("summary", { children: "What the judge was asked" }),
      /* @__PURE__ */ a3(TheirBlock, { text: attempt.judge_question, label: "What the judge was asked" })
    ] }),
    attempt.traceback && /* @__PURE__ */ a3("details", { open: !attempt.traceback.trim().includes("\n"), children: [
      /* @__PURE__ */ a3("summary", { children: "Traceback" }),
      /* @__PURE__ */ a3(TheirBlock, { text: attempt.traceback, label: "Traceback" })
    ] })
  ] });
  var TimeList = ({ spot }) => {
    const reply = useReply(request("times", spot.places));
    return /* @__PURE__ */ a3(Panel, { reply, title: "Time", class: "side-panel", children: (times) => {
      if (times.spans.length === 0) return /* @__PURE__ */ a3("p", { class: "quiet", children: /* @__PURE__ */ a3(WithOptions, { text: sentence(visible(times.absent || "no times were recorded.")) }) });
      const end = Math.max(...times.spans.map((span) => span.end_s), 1e-9);
      return /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3("ol", { class: "spans", children: times.spans.map((span, at) => /* @__PURE__ */ a3("li", { "data-tip": `${span.name}: from ${duration(span.start_s)} to ${duration(span.end_s)}`, children: [
          /* @__PURE__ */ a3("span", { children: [
            /* @__PURE__ */ a3(Theirs, { text: span.name, limit: 60 }),
            " ",
            /* @__PURE__ */ a3(Theirs, { text: span.detail, limit: 80 })
          ] }),
          /* @__PURE__ */ a3("span", { class: "n", children: duration(span.end_s - span.start_s) }),
          /* @__PURE__ */ a3("svg", { class: "meter", "aria-hidden": "true", children: /* @__PURE__ */ a3("rect", { x: `${100 * span.start_s / end}%`, y: "0", width: `${Math.max(0.5, 100 * (span.end_s - span.start_s) / end)}%`, height: "100%", class: "bar plain" }) })
        ] }, at)) }),
        /* @__PURE__ */ a3("p", { class: "quiet", children: [
          "from ",
          visible(times.source)
        ] })
      ] });
    } });
  };
  var CommandList = ({ spot, name }) => {
    const reply = useReply(request("commands", spot.places, { row: spot.row }));
    return /* @__PURE__ */ a3(Panel, { reply, title: "Commands", class: "side-panel", children: (data) => /* @__PURE__ */ a3($, { children: [
      data.commands.map((command) => /* @__PURE__ */ a3("div", { class: "command-entry", children: [
        /* @__PURE__ */ a3("h3", { children: visible(command.name) }),
        /* @__PURE__ */ a3(Command, { name: visible(command.name), text: command.name === "link" ? location.origin + command.value : command.value })
      ] }, command.name)),
      data.missing && /* @__PURE__ */ a3("p", { class: "quiet", children: /* @__PURE__ */ a3(WithOptions, { text: visible(data.missing) }) }),
      /* @__PURE__ */ a3("button", { type: "button", onClick: () => void download(request("download", spot.places, { row: spot.row }), `${name.replaceAll(":", "-")}.json`), children: "Download the row" })
    ] }) });
  };

  // src/pages/layout.tsx
  var PARTS = [
    ["overview", "Overview"],
    ["tasks", "Tasks"],
    ["rollouts", "Rollouts"],
    ["failures", "Failures"],
    ["select", "Select"],
    ["about", "About"]
  ];
  var RENEW_MS2 = 2e3;
  var placeOfPart = (run, part2) => part2 === "overview" ? runPlace(run) : part2 === "tasks" || part2 === "rollouts" ? tablePlace(run, part2) : `/r/${run}/${part2}`;
  var useSlow = (value) => {
    const [slow, setSlow] = d2(value);
    const last = T2(0);
    A2(() => {
      if (value === slow) return void 0;
      const wait = Math.max(0, last.current + RENEW_MS2 - Date.now());
      const timer = setTimeout(() => {
        last.current = Date.now();
        setSlow(value);
      }, wait);
      return () => clearTimeout(timer);
    }, [value, slow]);
    return slow;
  };
  var isUnread = (base) => !base.complete || base.total_bytes === 0;
  var RunLayout = ({ run, part: part2, task, rollout, children }) => {
    const [live, setLive] = d2(null);
    const page2 = useReply(request("run", { run }));
    const base = live?.base ?? page2.data?.base ?? null;
    useLines(page2.data ? request("live", { run }) : null, setLive);
    const version = useSlow(base?.version ?? null);
    const name = visibleLine(page2.data?.title || page2.data?.run.name || (page2.error ? "no run" : "…"), 80);
    useTitle(rollout ? `${task}:${rollout} · ${name}` : task ? `task ${task} · ${name}` : name);
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("nav", { class: "parts", "aria-label": "Parts of the run", children: [
        /* @__PURE__ */ a3("ol", { class: "crumbs", children: [
          /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: "/", children: "Runs" }) }),
          /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: runPlace(run), "aria-current": part2 === "overview" ? "page" : void 0, children: /* @__PURE__ */ a3("bdi", { dir: "auto", children: name }) }) }),
          part2 === "t" && /* @__PURE__ */ a3("li", { children: task === "-" ? /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts"), children: "rows without key" }) : /* @__PURE__ */ a3("a", { href: taskPlace(run, task), "aria-current": rollout === void 0 ? "page" : void 0, children: [
            "task ",
            visibleLine(task, 40)
          ] }) }),
          part2 === "t" && rollout !== void 0 && /* @__PURE__ */ a3("li", { "aria-current": "page", children: rollout === "-" ? "row" : `rollout ${visibleLine(rollout, 20)}` })
        ] }),
        /* @__PURE__ */ a3("ul", { children: PARTS.map(([key, title2]) => /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: placeOfPart(run, key), "aria-current": key === part2 ? "page" : void 0, children: title2 }) }, key)) }),
        live && live.run.state === "running" && /* @__PURE__ */ a3(LiveBadge, { live })
      ] }),
      /* @__PURE__ */ a3("main", { id: "main", tabIndex: -1, "aria-busy": page2.loading && !page2.data, class: part2 === "t" && rollout !== void 0 ? "wide" : void 0, children: [
        page2.error && /* @__PURE__ */ a3(ErrorBox, { error: page2.error }),
        base && isUnread(base) && /* @__PURE__ */ a3(Indexing, { base }),
        !page2.error && children({ id: run, name, page: page2, live, version })
      ] })
    ] });
  };
  var LiveBadge = ({ live }) => {
    const { run } = live;
    const ended = run.scored + run.failed;
    return /* @__PURE__ */ a3("p", { class: "live-badge", children: [
      /* @__PURE__ */ a3("span", { class: "dot", "aria-hidden": "true" }),
      " running, ",
      percent(run.requested ? ended / run.requested : null),
      run.left_s !== null ? `, ${duration(run.left_s)} left` : run.health === "standing still" && ", standing still",
      run.age_s !== null && /* @__PURE__ */ a3("span", { class: "quiet", children: [
        " (numbers are ",
        duration(run.age_s),
        " old)"
      ] })
    ] });
  };
  var Indexing = ({ base }) => /* @__PURE__ */ a3("p", { class: "indexing", role: "status", children: [
    /* @__PURE__ */ a3("progress", { max: Math.max(1, base.total_bytes), value: base.indexed_bytes, "aria-label": "Read so far" }),
    bytes(base.indexed_bytes),
    " of ",
    bytes(base.total_bytes),
    " are read; numbers are of these ",
    count(base.rows),
    " rows."
  ] });

  // src/pages/run.tsx
  var WITHOUT_MS = 3e3;
  var SOLVED = ["never", "sometimes", "always"];
  var RunOverview = ({ view }) => {
    useRowKeys();
    const { id, page: page2, live } = view;
    const figures = useReply(request("figures", { run: id }), { version: view.version });
    const again = figures.again;
    const isRunning = live?.run.state === "running";
    A2(() => {
      if (live?.changed) again();
    }, [live, again]);
    const isWithout = figures.data !== null && !figures.data.figures;
    A2(() => {
      if (!isWithout) return void 0;
      const timer = setInterval(() => document.visibilityState === "visible" && again(), WITHOUT_MS);
      return () => clearInterval(timer);
    }, [isWithout, again]);
    return /* @__PURE__ */ a3($, { children: [
      page2.data ? /* @__PURE__ */ a3(Head, { page: page2.data }) : /* @__PURE__ */ a3("h1", { children: view.name }),
      isRunning && /* @__PURE__ */ a3(LivePanel, { live, run: id }),
      /* @__PURE__ */ a3(Panel, { reply: figures, class: "first", children: (data) => data.figures ? /* @__PURE__ */ a3($, { children: [
        isRunning && /* @__PURE__ */ a3(ReadSoFar, { figures: data.figures, at: data.computed_at }),
        /* @__PURE__ */ a3(FigureParts, { figures: data.figures, run: id, isRunning })
      ] }) : /* @__PURE__ */ a3(Notes, { texts: [data.absent || "Nothing is scored yet."], title: "No figures." }) })
    ] });
  };
  var ReadSoFar = ({ figures, at }) => {
    const scored = figures.outcomes.find((line) => line.name === "scored")?.count ?? 0;
    return /* @__PURE__ */ a3("p", { class: "quiet read-so-far", children: [
      "The figures below are of the ",
      amount(scored, "scored rollout"),
      " that were read until ",
      clock(at),
      ". They follow every 10 s."
    ] });
  };
  var Head = ({ page: page2 }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3("h1", { children: /* @__PURE__ */ a3("bdi", { dir: "auto", children: visibleLine(page2.title || page2.run.name, 200) }) }),
    /* @__PURE__ */ a3(Facts, { pairs: page2.settings }),
    page2.command && /* @__PURE__ */ a3("p", { class: "command theirs", dir: "auto", children: visibleLine(page2.command, 1e3) }),
    page2.clusters.length > 0 && /* @__PURE__ */ a3("p", { class: "links", children: page2.clusters.map((cluster) => /* @__PURE__ */ a3("a", { href: `/k/${cluster.id}`, children: [
      "Its jobs: ",
      /* @__PURE__ */ a3(Theirs, { text: cluster.name })
    ] }, cluster.id)) }),
    page2.group_problem && /* @__PURE__ */ a3("p", { class: "error", role: "alert", children: visible(page2.group_problem) }),
    /* @__PURE__ */ a3(Notes, { texts: page2.marks }),
    page2.problems.length > 0 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
      amount(page2.problems.length, "line"),
      " of its files cannot be read: ",
      /* @__PURE__ */ a3("a", { href: `/r/${page2.run.id}/about`, children: "which, and why" }),
      "."
    ] })
  ] });
  var LivePanel = ({ live, run }) => {
    const { run: line } = live;
    const ended = line.scored + line.failed;
    return /* @__PURE__ */ a3("section", { class: "live first", "aria-labelledby": "live-title", children: [
      /* @__PURE__ */ a3("h2", { id: "live-title", children: "Running now" }),
      /* @__PURE__ */ a3(HealthLine, { run: line }),
      /* @__PURE__ */ a3("dl", { class: "key-figures", children: [
        /* @__PURE__ */ a3(Key, { name: "Ended", value: percent(line.requested ? ended / line.requested : null), note: `${count(ended)} of ${count(line.requested)}` }),
        /* @__PURE__ */ a3(Key, { name: "Rate", value: line.rate === null ? "–" : `${decimal(line.rate, line.rate < 10 ? 2 : 0)}/s`, note: "rollouts that ended, last minute" }),
        /* @__PURE__ */ a3(Key, { name: "Time left", value: duration(line.left_s), note: line.left_s !== null ? "at this rate" : line.health === "standing still" ? "nothing ends now" : "too few have ended to say" }),
        /* @__PURE__ */ a3(Key, { name: "In flight", value: line.in_flight === null ? "–" : count(line.in_flight), note: "rollouts" })
      ] }),
      /* @__PURE__ */ a3("div", { class: "share-line", children: /* @__PURE__ */ a3(
        ShareBar,
        {
          parts: [
            { tone: "plain", share: line.requested ? line.scored / line.requested : 0, tip: `${count(line.scored)} scored` },
            { tone: "never", share: line.requested ? line.failed / line.requested : 0, tip: `${count(line.failed)} failed` },
            { tone: "quiet", share: line.requested ? (line.in_flight ?? 0) / line.requested : 0, tip: `${count(line.in_flight ?? 0)} in flight` }
          ]
        }
      ) }),
      live.phases.length > 0 && /* @__PURE__ */ a3(Scrolling, { label: "What rollouts in flight wait for", children: /* @__PURE__ */ a3("table", { children: [
        /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
          /* @__PURE__ */ a3("th", { scope: "col", children: "Phase" }),
          /* @__PURE__ */ a3("th", { scope: "col", children: "Awaits" }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Rollouts" }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Oldest wait" })
        ] }) }),
        /* @__PURE__ */ a3("tbody", { children: live.phases.map((phase) => /* @__PURE__ */ a3("tr", { children: [
          /* @__PURE__ */ a3("th", { scope: "row", children: visible(phase.phase) }),
          /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Theirs, { text: phase.awaiting || "–" }) }),
          /* @__PURE__ */ a3("td", { class: "n", children: count(phase.count) }),
          /* @__PURE__ */ a3("td", { class: "n", children: duration(phase.oldest_s) })
        ] }, `${phase.phase} ${phase.awaiting}`)) })
      ] }) }),
      live.oldest.length > 0 && /* @__PURE__ */ a3("details", { children: [
        /* @__PURE__ */ a3("summary", { children: [
          "The slowest: ",
          amount(live.oldest.length, "rollout")
        ] }),
        /* @__PURE__ */ a3(Scrolling, { label: "The oldest rollouts in flight", children: /* @__PURE__ */ a3("table", { children: [
          /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
            /* @__PURE__ */ a3("th", { scope: "col", children: "Rollout" }),
            /* @__PURE__ */ a3("th", { scope: "col", children: "Phase" }),
            /* @__PURE__ */ a3("th", { scope: "col", children: "Awaits" }),
            /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Age" })
          ] }) }),
          /* @__PURE__ */ a3("tbody", { children: live.oldest.map((flight) => /* @__PURE__ */ a3("tr", { children: [
            /* @__PURE__ */ a3("th", { scope: "row", children: [
              /* @__PURE__ */ a3("a", { href: rolloutPlace(run, flight.task, flight.rollout), children: keyText(flight.task, flight.rollout) }),
              flight.attempt > 1 && /* @__PURE__ */ a3("small", { children: [
                "attempt ",
                flight.attempt
              ] })
            ] }),
            /* @__PURE__ */ a3("td", { children: visible(flight.phase) }),
            /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Theirs, { text: flight.awaiting || "–" }) }),
            /* @__PURE__ */ a3("td", { class: "n", children: [
              duration(flight.age_s),
              isShorter(flight.awaiting_s, flight.age_s) && /* @__PURE__ */ a3("small", { children: [
                "waits ",
                duration(flight.awaiting_s)
              ] })
            ] })
          ] }, `${flight.task}:${flight.rollout}`)) })
        ] }) })
      ] }),
      live.last_failure && /* @__PURE__ */ a3("p", { children: [
        "Last failure: ",
        /* @__PURE__ */ a3(Theirs, { text: live.last_failure, limit: 400 })
      ] })
    ] });
  };
  var isShorter = (waitS, ageS) => ageS >= 1 && waitS < 0.9 * ageS;
  var HEALTH_TONES = { slow: "warning", failing: "error", "standing still": "error" };
  var HealthLine = ({ run }) => run.health ? /* @__PURE__ */ a3("p", { class: "health", role: "status", children: [
    /* @__PURE__ */ a3("span", { class: `severity ${HEALTH_TONES[run.health] ?? "note"}`, children: run.health }),
    " ",
    fullSentence(visible(run.health_text)),
    run.health_advice && /* @__PURE__ */ a3($, { children: [
      " ",
      /* @__PURE__ */ a3(WithOptions, { text: visible(run.health_advice) })
    ] })
  ] }) : null;
  var Key = ({ name, value, note }) => /* @__PURE__ */ a3("div", { children: [
    /* @__PURE__ */ a3("dt", { children: name }),
    /* @__PURE__ */ a3("dd", { children: [
      value,
      /* @__PURE__ */ a3("small", { children: note })
    ] })
  ] });
  var FigureParts = ({ figures, run, isRunning }) => /* @__PURE__ */ a3($, { children: [
    /* @__PURE__ */ a3("dl", { class: "key-figures", children: figures.key_figures.map((figure) => /* @__PURE__ */ a3(Key, { name: figure.name, value: figure.value, note: figure.note }, figure.name)) }),
    /* @__PURE__ */ a3(Solved, { figures, run }),
    /* @__PURE__ */ a3("ul", { class: "findings", children: figures.findings.filter((remark) => !isRunning || !/(--|\+)resume/.test(remark.text)).map((remark) => /* @__PURE__ */ a3("li", { children: [
      /* @__PURE__ */ a3("b", { children: [
        visible(remark.head),
        " "
      ] }),
      /* @__PURE__ */ a3(WithOptions, { text: visible(remark.text) }),
      remark.query && /* @__PURE__ */ a3($, { children: [
        " ",
        /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts", remark.query), children: "List them" })
      ] })
    ] }, remark.head)) }),
    /* @__PURE__ */ a3(Notes, { texts: figures.notices }),
    /* @__PURE__ */ a3("h2", { class: "section", children: "What the rewards say" }),
    /* @__PURE__ */ a3("div", { class: "figures", children: /* @__PURE__ */ a3(Charts, { figures, run }) }),
    /* @__PURE__ */ a3("h2", { class: "section", children: "How the requests ended" }),
    /* @__PURE__ */ a3(Outcomes, { lines: figures.outcomes, run, isRunning }),
    figures.groups.length > 1 && /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h2", { class: "section", children: [
        "By ",
        visible(figures.grouped_by || "agent")
      ] }),
      /* @__PURE__ */ a3(Groups, { groups: figures.groups, run, binary: figures.binary, title: figures.grouped_by || "agent" })
    ] }),
    figures.components.length > 0 && /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h2", { class: "section", children: "Parts of the reward" }),
      /* @__PURE__ */ a3(Components, { lines: figures.components })
    ] })
  ] });
  var Solved = ({ figures, run }) => {
    const total = figures.solved.reduce((sum, line) => sum + line.count, 0);
    if (!total) return null;
    const parts2 = figures.solved.map((line, at) => ({
      tone: SOLVED[at] ?? "plain",
      share: line.count / total,
      tip: `${line.name} solved: ${amount(line.count, "task")} (${percent(line.count / total)})`
    }));
    return /* @__PURE__ */ a3("div", { class: "split", children: [
      /* @__PURE__ */ a3(ShareBar, { parts: parts2 }),
      /* @__PURE__ */ a3("ul", { class: "legend", children: figures.solved.map((line, at) => /* @__PURE__ */ a3("li", { children: [
        /* @__PURE__ */ a3("span", { class: `key ${SOLVED[at]}` }),
        /* @__PURE__ */ a3("a", { href: tablePlace(run, "tasks", `solved:${line.name}`), children: [
          /* @__PURE__ */ a3("b", { children: percent(line.count / total) }),
          " ",
          line.name,
          " solved"
        ] }),
        " ",
        /* @__PURE__ */ a3("span", { class: "quiet", children: amount(line.count, "task") })
      ] }, line.name)) })
    ] });
  };
  var barRows = (bars) => {
    const total = bars.reduce((sum, bar) => sum + bar.count, 0);
    return bars.map((bar) => [bar.label, count(bar.count), percent(total ? bar.count / total : null)]);
  };
  var meanText = (mean, binary) => binary ? percent(mean.value) : decimal(mean.value);
  var rangeText = ({ low, high }, binary) => low === null || high === null ? "-" : binary ? percents(low, high) : interval(low, high);
  var Charts = ({ figures, run }) => {
    const link = (bar) => bar.query ? tablePlace(run, bar.of, bar.query) : null;
    const last = figures.pass_rates.length - 1;
    const isByRate = Boolean(figures.pass_rates[last]?.label.endsWith("%"));
    const [first, final] = [figures.curve[0], figures.curve[figures.curve.length - 1]];
    const fewer = first && final && final.tasks < first.tasks ? ` Only ${count(final.tasks)} of ${amount(first.tasks, "task")} have ${final.k} scored rollouts.` : "";
    return /* @__PURE__ */ a3($, { children: [
      figures.pass_rates.length > 0 && /* @__PURE__ */ a3(Figure, { title: "Pass rate of tasks", reading: `Tasks at both ends teach a group-relative method nothing. Choose a bar to list its tasks.${isByRate ? " Not all have as many scored rollouts, or they have many: bars are rates." : ""}`, heads: ["Pass rate", "Tasks", "Share"], rows: barRows(figures.pass_rates), children: /* @__PURE__ */ a3(
        ColumnChart,
        {
          bars: figures.pass_rates,
          unit: "task",
          title: isByRate ? "pass rate up to, percent" : `rollouts solved, of ${last}`,
          label: "Tasks by pass rate",
          link,
          tone: (_3, at) => at === 0 ? "never" : at === last ? "always" : "sometimes"
        }
      ) }),
      figures.curve.length > 1 && /* @__PURE__ */ a3(
        Figure,
        {
          title: figures.binary ? "pass@k and pass^k" : "Best of k",
          reading: `How much the best of k rollouts gains over one. Whiskers: 95 %.${fewer}`,
          heads: ["k", figures.binary ? "pass@k" : "best of k", "95 %", ...figures.binary ? ["pass^k"] : [], "Tasks"],
          rows: figures.curve.map((point) => [
            String(point.k),
            meanText(point.best, figures.binary),
            rangeText(point.best, figures.binary),
            ...figures.binary ? [percent(point.worst)] : [],
            count(point.tasks)
          ]),
          children: /* @__PURE__ */ a3(CurveChart, { points: figures.curve, binary: figures.binary })
        }
      ),
      figures.rewards.length > 0 && /* @__PURE__ */ a3(Figure, { title: "Rewards of rollouts", reading: "Choose a bar to read its rollouts.", heads: ["Reward", "Rollouts", "Share"], rows: barRows(figures.rewards), children: /* @__PURE__ */ a3(ColumnChart, { bars: figures.rewards, unit: "rollout", title: "reward", label: "Rollouts by reward", link, tone: () => "plain" }) }),
      figures.lengths.length > 1 && /* @__PURE__ */ a3(
        Figure,
        {
          title: "Reward against length",
          reading: "Grey bars: how many rollouts are of that length. Choose a point to read them.",
          heads: ["Output tokens", "Rollouts", "Mean reward", "95 %"],
          rows: figures.lengths.map((bin) => [
            `${count(bin.low)} to ${count(bin.high)}`,
            count(bin.rollouts),
            meanText(bin.reward, figures.binary),
            rangeText(bin.reward, figures.binary)
          ]),
          children: /* @__PURE__ */ a3(LengthChart, { bins: figures.lengths, binary: figures.binary, link: (bin) => bin.query ? tablePlace(run, "rollouts", bin.query) : null })
        }
      )
    ] });
  };
  var NO_TRACE = "no trace";
  var Outcomes = ({ lines, run, isRunning }) => /* @__PURE__ */ a3(Scrolling, { label: "How the requests ended", children: /* @__PURE__ */ a3("table", { id: "outcomes", children: [
    /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "col", children: "Outcome" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "wide", children: /* @__PURE__ */ a3("span", { class: "hidden", children: "Share as a bar" }) }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Rollouts" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Share" }),
      /* @__PURE__ */ a3("th", { scope: "col", children: "Meaning" })
    ] }) }),
    /* @__PURE__ */ a3("tbody", { children: lines.map((line) => {
      const isAhead = isRunning && line.name === NO_TRACE;
      const name = isAhead ? "not ended yet" : line.name;
      return /* @__PURE__ */ a3("tr", { "data-row": true, children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: line.query && line.count ? /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts", line.query), children: name }) : name }),
        /* @__PURE__ */ a3("td", { class: "wide", children: /* @__PURE__ */ a3(Meter, { share: line.share, tone: line.name === "scored" ? "plain" : isAhead ? "quiet" : "never" }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: count(line.count) }),
        /* @__PURE__ */ a3("td", { class: "n", children: percent(line.share) }),
        /* @__PURE__ */ a3("td", { class: "quiet", children: isAhead ? "in flight, or not started" : visible(line.meaning) })
      ] }, line.name);
    }) })
  ] }) });
  var Groups = ({ groups, run, binary, title: title2 }) => {
    const mostK = Math.max(1, ...groups.map((group) => group.best_k));
    const rate = (value) => binary ? percent(value) : decimal(value);
    return /* @__PURE__ */ a3(Scrolling, { label: `By ${title2}`, children: /* @__PURE__ */ a3("table", { children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: visible(title2) }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Tasks" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Scored" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Mean reward" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "pass@1" }),
        mostK > 1 && /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: [
          "pass@",
          mostK
        ] }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "wide", children: /* @__PURE__ */ a3("span", { class: "hidden", children: "Never, sometimes, always solved" }) }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Tokens" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: groups.map((group) => /* @__PURE__ */ a3("tr", { "data-row": true, children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: group.query ? /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts", group.query), children: /* @__PURE__ */ a3(Theirs, { text: group.name, limit: 60 }) }) : /* @__PURE__ */ a3(Theirs, { text: group.name, limit: 60 }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: count(group.tasks) }),
        /* @__PURE__ */ a3("td", { class: "n", children: percent(group.requested ? group.scored / group.requested : null) }),
        /* @__PURE__ */ a3("td", { class: "n", children: [
          decimal(group.mean_reward?.value),
          /* @__PURE__ */ a3("small", { children: interval(group.mean_reward?.low, group.mean_reward?.high) })
        ] }),
        /* @__PURE__ */ a3("td", { class: "n", children: rate(group.pass_at_1) }),
        mostK > 1 && /* @__PURE__ */ a3("td", { class: "n", children: [
          group.best_k === mostK ? rate(group.best) : "–",
          group.best_k === mostK && group.best_tasks < group.scored_tasks && /* @__PURE__ */ a3("small", { children: [
            "over ",
            count(group.best_tasks),
            " of ",
            amount(group.scored_tasks, "task")
          ] })
        ] }),
        /* @__PURE__ */ a3("td", { class: "wide", children: /* @__PURE__ */ a3(
          ShareBar,
          {
            parts: [group.never, group.sometimes, group.always].map((share, at) => ({
              tone: SOLVED[at] ?? "plain",
              share: share ?? 0,
              tip: `${SOLVED[at]} solved: ${percent(share)}`
            }))
          }
        ) }),
        /* @__PURE__ */ a3("td", { class: "n", children: number(group.output_tokens) })
      ] }, group.name)) })
    ] }) });
  };
  var Components = ({ lines }) => /* @__PURE__ */ a3(Scrolling, { label: "Parts of the reward", children: /* @__PURE__ */ a3("table", { children: [
    /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "col", children: "Component" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Rollouts" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Mean" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Least" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Most" })
    ] }) }),
    /* @__PURE__ */ a3("tbody", { children: lines.map((line) => /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "row", children: /* @__PURE__ */ a3(Theirs, { text: line.name, limit: 60 }) }),
      /* @__PURE__ */ a3("td", { class: "n", children: count(line.rollouts) }),
      /* @__PURE__ */ a3("td", { class: "n", children: [
        decimal(line.mean.value),
        /* @__PURE__ */ a3("small", { children: interval(line.mean.low, line.mean.high) })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: number(line.least) }),
      /* @__PURE__ */ a3("td", { class: "n", children: number(line.most) })
    ] }, line.name)) })
  ] }) });

  // src/pages/runs.tsx
  var STATES = { running: "running", done: "done", stopped: "stopped" };
  var RunsPage = ({ session, search }) => {
    useTitle("Runs");
    useRowKeys();
    const [latest, setLatest] = d2(null);
    const reply = useReply(request("runs"));
    const hasLive = (latest ?? reply.data)?.runs.some((run) => run.state === "running");
    useLines(hasLive ? request("liveRuns") : null, setLatest);
    const first = search.get("with");
    return /* @__PURE__ */ a3("main", { id: "main", tabIndex: -1, children: [
      /* @__PURE__ */ a3("h1", { children: "Runs" }),
      session && /* @__PURE__ */ a3("p", { class: "lead", children: [
        "In",
        " ",
        session.paths.map((path, at) => /* @__PURE__ */ a3("span", { children: [
          at > 0 && ", ",
          /* @__PURE__ */ a3(FilePath, { text: path })
        ] }, path)),
        "."
      ] }),
      session && session.clusters.length > 0 && /* @__PURE__ */ a3("section", { class: "clusters", "aria-label": "Runs over many jobs", children: [
        /* @__PURE__ */ a3("h2", { children: "Over many jobs" }),
        /* @__PURE__ */ a3("ul", { class: "links", children: session.clusters.map((cluster) => /* @__PURE__ */ a3("li", { children: /* @__PURE__ */ a3("a", { href: `/k/${cluster.id}`, "data-row": true, children: /* @__PURE__ */ a3(Theirs, { text: cluster.name }) }) }, cluster.id)) })
      ] }),
      /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (data) => /* @__PURE__ */ a3(RunTable, { runs: (latest ?? data).runs, first, paths: session?.paths ?? [] }) })
    ] });
  };
  var shortPath = (path, folders) => {
    const folder = folders.filter((candidate) => path.startsWith(`${candidate}/`)).sort((a4, b2) => b2.length - a4.length)[0];
    return folder ? `…${path.slice(folder.length)}` : path;
  };
  var RunTable = ({ runs, first, paths }) => {
    const hasModels = runs.some((run) => run.model);
    const chosen = runs.find((run) => run.id === first);
    return /* @__PURE__ */ a3($, { children: [
      chosen && /* @__PURE__ */ a3("p", { class: "picking", role: "status", children: [
        "Choose the run to compare with ",
        /* @__PURE__ */ a3(Theirs, { text: chosen.name }),
        ".",
        " ",
        /* @__PURE__ */ a3("button", { type: "button", onClick: () => setParameters({ with: null }), children: "Not now" })
      ] }),
      /* @__PURE__ */ a3("div", { class: "scrolling", tabIndex: 0, role: "region", "aria-label": "Runs", children: /* @__PURE__ */ a3("table", { class: "runs", children: [
        /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
          /* @__PURE__ */ a3("th", { scope: "col", children: "Run" }),
          hasModels && /* @__PURE__ */ a3("th", { scope: "col", children: "Model" }),
          /* @__PURE__ */ a3("th", { scope: "col", children: "State" }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Scored" }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "meter-cell", children: /* @__PURE__ */ a3("span", { class: "hidden", children: "Coverage" }) }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Mean reward" }),
          /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Failed" }),
          /* @__PURE__ */ a3("th", { scope: "col", children: "Started" }),
          /* @__PURE__ */ a3("th", { scope: "col", children: "Compare" })
        ] }) }),
        /* @__PURE__ */ a3("tbody", { children: runs.map((run) => /* @__PURE__ */ a3(RunRow, { run, path: shortPath(run.path, paths), first, hasModels, alone: runs.length < 2 }, run.id)) })
      ] }) }),
      runs.length > 8 && /* @__PURE__ */ a3("p", { class: "quiet", children: [
        count(runs.length),
        " runs.",
        " ",
        /* @__PURE__ */ a3("button", { type: "button", class: "bare", onClick: () => moveRow(1), children: "Move with j and k" })
      ] })
    ] });
  };
  var RunRow = ({ run, path, first, hasModels, alone }) => {
    const ended = run.scored + run.failed;
    return /* @__PURE__ */ a3("tr", { "data-row": true, class: run.state, children: [
      /* @__PURE__ */ a3("th", { scope: "row", children: [
        /* @__PURE__ */ a3("a", { href: runPlace(run.id), children: /* @__PURE__ */ a3(Theirs, { text: run.name, limit: 80 }) }),
        run.environment && run.environment !== run.name && /* @__PURE__ */ a3("span", { class: "quiet", children: [
          " ",
          /* @__PURE__ */ a3(Theirs, { text: run.environment, limit: 60 })
        ] }),
        /* @__PURE__ */ a3("small", { children: /* @__PURE__ */ a3(FilePath, { text: path, limit: 120 }) }),
        run.problem && /* @__PURE__ */ a3("small", { class: "problem", children: sentence(visible(run.problem)) })
      ] }),
      hasModels && /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Theirs, { text: run.model || "–", limit: 40 }) }),
      /* @__PURE__ */ a3("td", { children: [
        /* @__PURE__ */ a3("span", { class: `state ${run.state}`, children: STATES[run.state] }),
        run.state === "running" && /* @__PURE__ */ a3("small", { children: [
          run.rate !== null && `${decimal(run.rate, 1)}/s`,
          run.left_s !== null ? `, ${duration(run.left_s)} left` : run.health === "standing still" && ", standing still",
          run.age_s !== null && `, ${duration(run.age_s)} old`
        ] })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: [
        count(run.scored),
        /* @__PURE__ */ a3("small", { children: [
          "of ",
          count(run.requested)
        ] })
      ] }),
      /* @__PURE__ */ a3("td", { class: "meter-cell", children: [
        /* @__PURE__ */ a3(Meter, { share: run.requested ? (run.state === "running" ? ended : run.scored) / run.requested : 0, tone: "plain" }),
        /* @__PURE__ */ a3("small", { class: "quiet", children: percent(run.requested ? run.scored / run.requested : null) })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: [
        decimal(run.mean_reward.value),
        /* @__PURE__ */ a3("small", { children: interval(run.mean_reward.low, run.mean_reward.high) })
      ] }),
      /* @__PURE__ */ a3("td", { class: run.failed ? "n bad" : "n", children: run.failed ? /* @__PURE__ */ a3("a", { href: `/r/${run.id}/failures`, children: count(run.failed) }) : "0" }),
      /* @__PURE__ */ a3("td", { class: "nowrap", children: moment(run.started_at) }),
      /* @__PURE__ */ a3("td", { children: first === run.id ? /* @__PURE__ */ a3("span", { class: "quiet", children: "A" }) : first ? /* @__PURE__ */ a3("a", { href: `/c/${first}/${run.id}`, class: "button", children: "with this" }) : /* @__PURE__ */ a3("a", { href: placeWith({ with: run.id }), class: "button", "aria-disabled": alone || void 0, "aria-label": `Compare ${visible(run.name)} with another run`, children: "Compare" }) })
    ] });
  };

  // src/pages/select.tsx
  var LOW = 0.1;
  var HIGH = 0.9;
  var STEPS2 = 100;
  var SIZE3 = 500;
  var FIRST = 50;
  var SelectPage = ({ view, search }) => {
    useRowKeys();
    useKeys({ Escape: () => go(runPlace(view.id)) });
    const low = Number(search.get("low") ?? LOW);
    const high = Number(search.get("high") ?? HIGH);
    const offset = Number(search.get("offset") ?? 0);
    const reply = useReply(request("select", { run: view.id }, { low, high, offset }), { version: view.version });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h1", { class: "small", children: "Which tasks can teach this model now?" }),
      /* @__PURE__ */ a3("p", { class: "lead", children: "Tasks whose pass rate lies in the band are kept. At both ends a group-relative method learns nothing." }),
      /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (selection) => /* @__PURE__ */ a3($, { children: [
        /* @__PURE__ */ a3(Band, { low, high, bars: selection.rates }),
        /* @__PURE__ */ a3(Verdicts, { selection }),
        /* @__PURE__ */ a3("p", { class: "quiet", children: "Borderline: the 90 % interval of the pass rate includes an edge of the band, so more rollouts may change the verdict." }),
        /* @__PURE__ */ a3(Failures, { failures: selection.failures, run: view.id }),
        /* @__PURE__ */ a3(Command, { name: "The command that writes these tasks", text: selection.command }),
        /* @__PURE__ */ a3("p", { class: "quiet", children: /* @__PURE__ */ a3(WithOptions, { text: visible(selection.command_note) }) }),
        /* @__PURE__ */ a3(Notes, { texts: selection.notices }),
        /* @__PURE__ */ a3(Tasks2, { selection, run: view.id }),
        selection.total > SIZE3 && /* @__PURE__ */ a3(PageButtons, { offset: selection.offset, total: selection.total })
      ] }) })
    ] });
  };
  var THUMB = 0.75;
  var Band = ({ low, high, bars }) => {
    const [ends, setEnds] = d2([low, high]);
    A2(() => setEnds([low, high]), [low, high]);
    const most = Math.max(1, ...bars.map((bar) => bar.count));
    const change = (which, value) => {
      const next = [ends[0], ends[1]];
      next[which] = which === 0 ? Math.min(value, ends[1]) : Math.max(value, ends[0]);
      setEnds(next);
      return next;
    };
    const commit = () => setParameters({ low: String(ends[0]), high: String(ends[1]), offset: null });
    const slider = (which, label) => /* @__PURE__ */ a3(
      "input",
      {
        type: "range",
        min: "0",
        max: STEPS2,
        step: "1",
        value: Math.round(ends[which] * STEPS2),
        "aria-label": label,
        "aria-valuetext": percent(ends[which]),
        onInput: (event) => change(which, Number(event.currentTarget.value) / STEPS2),
        onChange: commit
      }
    );
    const inset = { marginInline: `calc(${50 / Math.max(1, bars.length)}% - ${THUMB}rem)` };
    const names = bars.map((bar, at) => bar.label.endsWith("%") ? bar.tick : `${Math.round(100 * at / Math.max(1, bars.length - 1))} %`);
    return /* @__PURE__ */ a3("fieldset", { class: "band", children: [
      /* @__PURE__ */ a3("legend", { children: [
        "Pass rate from ",
        /* @__PURE__ */ a3("b", { children: percent(ends[0]) }),
        " to ",
        /* @__PURE__ */ a3("b", { children: percent(ends[1]) })
      ] }),
      /* @__PURE__ */ a3("svg", { width: "100%", height: "90", role: "img", "aria-label": bars.map((bar) => `${bar.label}: ${amount(bar.count, "task")}`).join("; "), children: bars.map((bar, at) => {
        const width = 100 / bars.length;
        const height = bar.count ? Math.max(2, bar.count / most * 84) : 0;
        const middle = bars.length > 1 ? at / (bars.length - 1) : 0.5;
        const isIn = middle >= ends[0] - 1e-9 && middle <= ends[1] + 1e-9;
        return /* @__PURE__ */ a3("g", { "data-tip": `${bar.label}: ${amount(bar.count, "task")}`, children: [
          /* @__PURE__ */ a3("rect", { x: `${at * width}%`, y: "0", width: `${width}%`, height: "90", class: "hit" }),
          /* @__PURE__ */ a3("rect", { x: `${at * width + width * 0.1}%`, y: 90 - height, width: `${width * 0.8}%`, height, class: `bar ${isIn ? "sometimes" : "quiet"}` })
        ] }, at);
      }) }),
      /* @__PURE__ */ a3("div", { class: "ends-slider", style: inset, children: [
        slider(0, "Lowest pass rate"),
        slider(1, "Highest pass rate")
      ] }),
      /* @__PURE__ */ a3("svg", { class: "chart", width: "100%", height: "18", "aria-hidden": "true", children: /* @__PURE__ */ a3(Labels, { texts: names, width: 100 / Math.max(1, bars.length), y: 12 }) })
    ] });
  };
  var USUAL_VERDICTS = /* @__PURE__ */ new Set(["kept", "too easy", "too hard", "undecided"]);
  var Verdicts = ({ selection }) => /* @__PURE__ */ a3("dl", { class: "key-figures", children: [
    selection.verdicts.filter((verdict) => verdict.count > 0 || USUAL_VERDICTS.has(verdict.name)).map((verdict) => /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: visible(verdict.name) }),
      /* @__PURE__ */ a3("dd", { children: [
        count(verdict.count),
        /* @__PURE__ */ a3("small", { children: [
          percent(selection.total ? verdict.count / selection.total : null),
          " of the tasks"
        ] }),
        verdict.borderline > 0 && /* @__PURE__ */ a3("small", { children: [
          count(verdict.borderline),
          " of them borderline"
        ] })
      ] })
    ] }, verdict.name)),
    /* @__PURE__ */ a3(Needed, { verdicts: selection.verdicts })
  ] });
  var Needed = ({ verdicts }) => {
    const sum = (of) => verdicts.reduce((total, verdict) => total + of(verdict), 0);
    const [borderline, onEdge] = [sum((verdict) => verdict.borderline), sum((verdict) => verdict.on_edge)];
    return /* @__PURE__ */ a3("div", { children: [
      /* @__PURE__ */ a3("dt", { children: "more rollouts" }),
      /* @__PURE__ */ a3("dd", { children: [
        count(sum((verdict) => verdict.more_rollouts)),
        /* @__PURE__ */ a3("small", { children: [
          "to decide ",
          amount(borderline - onEdge, "borderline task")
        ] }),
        onEdge > 0 && /* @__PURE__ */ a3("small", { children: [
          count(onEdge),
          " on an edge itself"
        ] })
      ] })
    ] });
  };
  var Failures = ({ failures, run }) => failures.length === 0 ? null : /* @__PURE__ */ a3("p", { class: "quiet", children: [
    "Not counted, neither as solved nor as failed: ",
    /* @__PURE__ */ a3("a", { href: `/r/${run}/failures`, children: failures.map((failure) => `${visible(failure.name)} ${count(failure.count)}`).join(", ") }),
    "."
  ] });
  var Tasks2 = ({ selection, run }) => {
    const [all, showAll] = d2(false);
    const hidden = all ? 0 : Math.max(0, selection.tasks.length - FIRST);
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3(TaskTable, { tasks: hidden ? selection.tasks.slice(0, FIRST) : selection.tasks, run }),
      hidden > 0 && /* @__PURE__ */ a3("button", { type: "button", onClick: () => showAll(true), children: [
        "Show ",
        amount(hidden, "more task")
      ] })
    ] });
  };
  var TaskTable = ({ tasks, run }) => /* @__PURE__ */ a3(Scrolling, { label: "Tasks and their verdicts", children: /* @__PURE__ */ a3("table", { children: [
    /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
      /* @__PURE__ */ a3("th", { scope: "col", children: "Task" }),
      /* @__PURE__ */ a3("th", { scope: "col", children: "Verdict" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Pass rate" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "wide", children: /* @__PURE__ */ a3("span", { class: "hidden", children: "Pass rate as a bar" }) }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Interval, 90 %" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Scored" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Learnability" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Tokens" }),
      /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "More rollouts" })
    ] }) }),
    /* @__PURE__ */ a3("tbody", { children: tasks.map((task) => /* @__PURE__ */ a3("tr", { "data-row": true, children: [
      /* @__PURE__ */ a3("th", { scope: "row", children: /* @__PURE__ */ a3("a", { href: taskPlace(run, task.task), children: visible(String(task.task)) }) }),
      /* @__PURE__ */ a3("td", { class: "nowrap", children: [
        visible(task.verdict),
        task.borderline && /* @__PURE__ */ a3("small", { children: "borderline" })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: percent(task.pass_rate) }),
      /* @__PURE__ */ a3("td", { class: "wide", children: /* @__PURE__ */ a3(Meter, { share: task.pass_rate ?? 0, tone: task.verdict === "kept" ? "sometimes" : "plain" }) }),
      /* @__PURE__ */ a3("td", { class: "n", children: task.low === null ? "" : `${percent(task.low)} to ${percent(task.high)}` }),
      /* @__PURE__ */ a3("td", { class: "n", children: [
        count(task.scored),
        /* @__PURE__ */ a3("small", { children: [
          "of ",
          count(task.requested)
        ] })
      ] }),
      /* @__PURE__ */ a3("td", { class: "n", children: decimal(task.learnability) }),
      /* @__PURE__ */ a3("td", { class: "n", children: number(task.output_tokens) }),
      /* @__PURE__ */ a3("td", { class: "n", children: task.more_rollouts !== null ? count(task.more_rollouts) : task.borderline ? /* @__PURE__ */ a3("small", { children: "on an edge itself" }) : "" })
    ] }, task.task)) })
  ] }) });
  var PageButtons = ({ offset, total }) => {
    const to = (next) => setParameters({ offset: next ? String(next) : null }, { replace: false });
    return /* @__PURE__ */ a3("nav", { class: "pages", "aria-label": "Pages of the table", children: [
      /* @__PURE__ */ a3("button", { type: "button", disabled: offset === 0, onClick: () => to(Math.max(0, offset - SIZE3)), children: "Previous" }),
      /* @__PURE__ */ a3("p", { role: "status", children: [
        count(offset + 1),
        " to ",
        count(Math.min(offset + SIZE3, total)),
        " of ",
        count(total),
        " tasks"
      ] }),
      /* @__PURE__ */ a3("button", { type: "button", disabled: offset + SIZE3 >= total, onClick: () => to(offset + SIZE3), children: "Next" })
    ] });
  };

  // src/pages/tables.tsx
  var SIZE4 = 100;
  var SHARES = /* @__PURE__ */ new Set(["pass_rate"]);
  var cellText = (column, cell) => {
    if (cell === null || cell === void 0) return "–";
    if (typeof cell === "boolean") return cell ? "yes" : "no";
    if (typeof cell === "string") return cell;
    if (SHARES.has(column.name)) return percent(cell);
    if (/^(reward|mean|std|learnability|delta)$/.test(column.name)) return decimal(cell);
    return Number.isInteger(cell) ? count(cell) : number(cell);
  };
  var headOf = (column) => ({
    name: column.name,
    label: column.label,
    numeric: column.kind === "number",
    sortable: column.sortable
  });
  var rangeOf = (query, field) => {
    const asked = askedOf(query, field);
    if (asked === null) return null;
    const [low, high] = asked.includes("..") ? asked.split("..").map(Number) : [Number(asked), Number(asked)];
    return low === void 0 || high === void 0 || Number.isNaN(low) || Number.isNaN(high) ? null : [low, high];
  };
  var TablePage = ({ view, of, search, first }) => {
    useRowKeys();
    const query = search.get("q") ?? "";
    const sort = search.get("sort") ?? "";
    const offset = Number(search.get("offset") ?? 0);
    const chosen = search.get("columns") ?? "";
    A2(() => {
      if (first && !search.has("q")) setParameters({ q: first });
    }, [first]);
    const { id, version } = view;
    const places = { run: id };
    const columns = useReply(request("columns", places), { version });
    const page2 = { q: query, sort, offset, limit: SIZE4, columns: chosen };
    const table = useReply(of === "tasks" ? request("tasks", places, page2) : request("rollouts", places, page2), { version });
    const facets = useReply(request("facets", places, { q: query, of }), { version });
    const histograms = useReply(request("histograms", places, { q: query, of }), { version });
    const all = columns.data?.[of] ?? [];
    const data = table.data;
    const isSearch = data !== null && "streaming" in data && data.streaming;
    const isOld = table.error?.status === 400;
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("h1", { class: "small", children: of === "tasks" ? "Tasks" : "Rollouts" }),
      /* @__PURE__ */ a3(QueryBox, { query, error: table.error, place: of }),
      table.error && !isOld && /* @__PURE__ */ a3(ErrorBox, { error: table.error }),
      /* @__PURE__ */ a3("div", { class: "with-facets", children: [
        /* @__PURE__ */ a3("aside", { "aria-label": "Filters", children: [
          !isOld && /* @__PURE__ */ a3(Filters, { facets: facets.data, histograms: histograms.data, query }),
          facets.error && facets.error.status !== 400 && /* @__PURE__ */ a3(ErrorBox, { error: facets.error })
        ] }),
        /* @__PURE__ */ a3("div", { class: "table-part", "aria-busy": table.loading, children: [
          isOld && /* @__PURE__ */ a3(QueryExamples, { place: of }),
          data && !isOld && /* @__PURE__ */ a3($, { children: [
            !isSearch && /* @__PURE__ */ a3("div", { class: "table-tools", children: [
              /* @__PURE__ */ a3(Pages, { offset: data.offset, size: SIZE4, matches: data.matches, total: data.total, noun: of }),
              all.length > 0 && /* @__PURE__ */ a3(Chooser, { columns: all, shown: data.columns })
            ] }),
            isSearch ? /* @__PURE__ */ a3(Search, { run: id, query }) : /* @__PURE__ */ a3(Table, { label: of, sort, heads: of === "tasks" ? taskHeads(data.columns) : rolloutHeads(data.columns), children: "streaming" in data ? /* @__PURE__ */ a3(RolloutRows, { table: data, run: id, query, sort }) : /* @__PURE__ */ a3(TaskRows, { table: data, run: id }) }),
            data.absent.length > 0 && /* @__PURE__ */ a3("p", { children: data.absent.map((line) => sentence(visible(line))).join(" ") }),
            data.matches === 0 && query && /* @__PURE__ */ a3(QueryExamples, { place: of }),
            !isSearch && data.matches > SIZE4 && /* @__PURE__ */ a3(Pages, { offset: data.offset, size: SIZE4, matches: data.matches, total: data.total, noun: of, below: true })
          ] })
        ] })
      ] })
    ] });
  };
  var Filters = ({ facets, histograms, query }) => {
    const [opened, setOpened] = d2(() => matchMedia("(min-width: 60rem)").matches);
    return /* @__PURE__ */ a3("details", { class: "filters-fold", open: opened, onToggle: (event) => setOpened(event.currentTarget.open), children: [
      /* @__PURE__ */ a3("summary", { children: "Filters" }),
      histograms?.histograms.map((histogram) => /* @__PURE__ */ a3(
        Brush,
        {
          histogram,
          label: histogram.field,
          chosen: rangeOf(query, histogram.field),
          onChoose: (range) => setQuery(withTerm(query, histogram.field, range ? between(histogram.field, range[0], range[1]) : null))
        },
        histogram.field
      )),
      facets?.facets.map((facet) => /* @__PURE__ */ a3(FacetList, { facet, query }, facet.field))
    ] });
  };
  var Chooser = ({ columns, shown }) => {
    const names = shown.map((column) => column.name);
    const toggle = (name) => {
      const next = names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
      setParameters({ columns: next.join(",") || null }, { replace: false });
    };
    return /* @__PURE__ */ a3(
      "details",
      {
        class: "chooser",
        onKeyDown: (event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          event.currentTarget.open = false;
        },
        children: [
          /* @__PURE__ */ a3("summary", { children: "Columns" }),
          /* @__PURE__ */ a3("fieldset", { children: [
            /* @__PURE__ */ a3("legend", { class: "hidden", children: "Columns of the table" }),
            columns.map((column) => /* @__PURE__ */ a3("label", { children: [
              /* @__PURE__ */ a3("input", { type: "checkbox", checked: names.includes(column.name), onChange: () => toggle(column.name) }),
              " ",
              visible(column.label)
            ] }, column.name)),
            /* @__PURE__ */ a3("button", { type: "button", onClick: () => setParameters({ columns: null }, { replace: false }), children: "The usual ones" })
          ] })
        ]
      }
    );
  };
  var KEY_COLUMNS = /* @__PURE__ */ new Set(["task", "rollout"]);
  var taskHeads = (columns) => [
    { name: "task", label: "Task", sortable: true },
    { name: "prompt", label: "Prompt", class: "prompt" },
    { name: "rewards", label: "Rewards" },
    ...columns.filter((column) => column.name !== "task").map(headOf)
  ];
  var TaskRows = ({ table, run }) => /* @__PURE__ */ a3($, { children: table.rows.map((row) => /* @__PURE__ */ a3("tr", { "data-row": true, children: [
    /* @__PURE__ */ a3("th", { scope: "row", class: "name", children: /* @__PURE__ */ a3("a", { href: taskPlace(run, row.task), children: /* @__PURE__ */ a3("bdi", { dir: "auto", children: visible(String(row.task)) }) }) }),
    /* @__PURE__ */ a3("td", { class: "prompt", children: /* @__PURE__ */ a3(Theirs, { text: row.prompt }) }),
    /* @__PURE__ */ a3("td", { children: /* @__PURE__ */ a3(Strip, { rewards: row.rewards }) }),
    table.columns.map(
      (column, at) => column.name === "task" ? null : /* @__PURE__ */ a3(DataCell, { column, cell: row.cells[at] ?? null }, column.name)
    )
  ] }, row.task)) });
  var rolloutHeads = (columns) => [
    { name: "task", label: "Rollout", sortable: true },
    ...columns.filter((column) => !KEY_COLUMNS.has(column.name)).map(headOf)
  ];
  var RolloutRows = ({ table, run, query, sort }) => /* @__PURE__ */ a3($, { children: table.rows.map((row) => {
    const options = { row: row.row, isMarked: row.marks.length > 0, q: query, sort };
    return /* @__PURE__ */ a3("tr", { "data-row": true, children: [
      /* @__PURE__ */ a3("th", { scope: "row", class: "name", children: [
        /* @__PURE__ */ a3("a", { href: rolloutPlace(run, row.task, row.rollout, options), children: visible(keyText(row.task, row.rollout, row.row)) }),
        row.marks.map((mark) => /* @__PURE__ */ a3("small", { class: "problem", children: visible(mark) }, mark))
      ] }),
      table.columns.map(
        (column, at) => KEY_COLUMNS.has(column.name) ? null : /* @__PURE__ */ a3(
          DataCell,
          {
            column,
            cell: row.cells[at] ?? null,
            href: column.name === "tokens.out" ? rolloutPlace(run, row.task, row.rollout, { ...options, panel: "tokens" }) : null
          },
          column.name
        )
      )
    ] }, row.row);
  }) });
  var DataCell = ({ column, cell, href = null }) => {
    const text = cellText(column, cell);
    if (column.name === "outcome") return /* @__PURE__ */ a3("td", { children: cell === null ? "–" : /* @__PURE__ */ a3("span", { class: `outcome ${cell === "scored" ? "good" : "bad"}`, children: visible(text) }) });
    if (column.kind === "text") return /* @__PURE__ */ a3("td", { class: "text", children: cell === null ? "–" : /* @__PURE__ */ a3(Theirs, { text, limit: 80 }) });
    return /* @__PURE__ */ a3("td", { class: "n", children: href && cell !== null ? /* @__PURE__ */ a3("a", { href, "aria-label": `${text} tokens: read them`, children: text }) : text });
  };
  var Search = ({ run, query }) => {
    const wanted = w2(() => request("search", { run }, { q: query }), [run, query]);
    const [state, setState] = d2({ hits: [], last: null, path: "" });
    const error = useLines(
      wanted,
      (line) => setState((before) => {
        const hits2 = before.path === wanted.path ? before.hits : [];
        return { hits: [...hits2, ...line.hits], last: line, path: wanted.path };
      }),
      { once: true }
    );
    const { hits, last } = state;
    return /* @__PURE__ */ a3($, { children: [
      error && /* @__PURE__ */ a3(ErrorBox, { error }),
      /* @__PURE__ */ a3("p", { class: "quiet", role: "status", children: [
        last ? `${amount(hits.length, "hit")} in ${bytes(last.searched)} of ${amount(last.candidates, "transcript")}` : "Searching…",
        last?.limit_reached && "; there are more: narrow the query",
        last && !last.done && " …"
      ] }),
      /* @__PURE__ */ a3("ol", { class: "hits", children: hits.map((hit, at) => /* @__PURE__ */ a3("li", { "data-row": true, children: [
        /* @__PURE__ */ a3("a", { href: rolloutPlace(run, hit.task, hit.rollout, { row: hit.row, q: query }), children: visible(keyText(hit.task, hit.rollout, hit.row)) }),
        " ",
        /* @__PURE__ */ a3("bdi", { class: "theirs", dir: "auto", children: [
          visible(hit.before),
          /* @__PURE__ */ a3("mark", { children: visible(hit.match) }),
          visible(hit.after)
        ] })
      ] }, at)) })
    ] });
  };

  // src/pages/task.tsx
  var TaskPage = ({ view, task, search }) => {
    const reply = useReply(request("task", { run: view.id, task }), { version: view.version });
    const pair2 = search.get("diff");
    if (pair2) return /* @__PURE__ */ a3(DiffView, { search }, pair2);
    return /* @__PURE__ */ a3(Panel, { reply, class: "first", children: (group) => /* @__PURE__ */ a3(Group, { group, run: view.id, picked: search.get("pick") }, String(group.task)) });
  };
  var placeOfDiff = (run, task, a4, b2) => placeWith({ diff: `${reference(run, task, a4.rollout, a4.row)},${reference(run, task, b2.rollout, b2.row)}`, pick: null });
  var Group = ({ group, run, picked }) => {
    useRowKeys();
    const scored = group.members.filter((member) => member.reward !== null);
    const [best, worst] = [scored[0], scored[scored.length - 1]];
    const diff = best && worst && best !== worst ? placeOfDiff(run, group.task, best, worst) : null;
    const to = (task) => task === null ? void 0 : () => go(taskPlace(run, task));
    useKeys({ "[": to(group.previous), "]": to(group.next), d: diff ? () => go(diff) : void 0, Escape: () => go(tablePlace(run, "tasks")) });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("div", { class: "title-line", children: [
        /* @__PURE__ */ a3("h1", { class: "small", children: [
          "Task ",
          /* @__PURE__ */ a3("bdi", { dir: "auto", children: visible(String(group.task)) })
        ] }),
        /* @__PURE__ */ a3(Strip, { rewards: scored.map((member) => member.reward ?? 0), height: 22 }),
        /* @__PURE__ */ a3("nav", { class: "neighbours", "aria-label": "Tasks before and after", children: [
          /* @__PURE__ */ a3(Neighbour, { run, task: group.previous, text: "Previous" }),
          /* @__PURE__ */ a3(Neighbour, { run, task: group.next, text: "Next" })
        ] })
      ] }),
      /* @__PURE__ */ a3("p", { class: "facts", children: [
        /* @__PURE__ */ a3("span", { children: [
          /* @__PURE__ */ a3("b", { children: count(group.solved) }),
          " of ",
          count(group.scored),
          " solved"
        ] }),
        /* @__PURE__ */ a3("span", { children: [
          "pass rate ",
          /* @__PURE__ */ a3("b", { children: percent(group.pass_rate) })
        ] }),
        /* @__PURE__ */ a3("span", { children: [
          "mean ",
          /* @__PURE__ */ a3("b", { children: decimal(group.mean) }),
          ", standard deviation ",
          decimal(group.std)
        ] }),
        /* @__PURE__ */ a3("span", { children: [
          "learnability ",
          /* @__PURE__ */ a3("b", { children: decimal(group.learnability) })
        ] }),
        group.scored < group.rollouts && /* @__PURE__ */ a3("span", { children: [
          amount(group.rollouts - group.scored, "rollout"),
          " without a score"
        ] })
      ] }),
      /* @__PURE__ */ a3("details", { class: "fold", open: group.prompt.length < 600, children: [
        /* @__PURE__ */ a3("summary", { children: "Prompt" }),
        /* @__PURE__ */ a3(TheirBlock, { text: group.prompt, label: "Prompt" })
      ] }),
      /* @__PURE__ */ a3("div", { class: "columns", children: [
        group.difference && /* @__PURE__ */ a3(Difference, { difference: group.difference, diff, total: group.members.length }),
        (group.answers.length > 0 || group.expected) && /* @__PURE__ */ a3(Answers, { group, run })
      ] }),
      /* @__PURE__ */ a3("h2", { class: "section", children: "Rollouts, the highest reward first" }),
      group.rollouts > group.members.length && /* @__PURE__ */ a3("p", { class: "quiet", children: [
        group.members.length,
        " of ",
        count(group.rollouts),
        " are shown. ",
        /* @__PURE__ */ a3("a", { href: tablePlace(run, "rollouts", equals("task", String(group.task))), children: "All of them" })
      ] }),
      /* @__PURE__ */ a3("ol", { class: "members", children: group.members.map((member) => /* @__PURE__ */ a3(Member, { member, group, run, picked, best, tone: toneOf(member, best, worst) }, member.row)) })
    ] });
  };
  var NOTHING = "nothing";
  var toneOf = (member, best, worst) => {
    if (!best || !worst || best.reward === worst.reward) return "";
    return member.reward === best.reward ? "best" : member.reward === worst.reward ? "worst" : "";
  };
  var Neighbour = ({ run, task, text }) => task === null ? /* @__PURE__ */ a3("span", { class: "quiet", children: text }) : /* @__PURE__ */ a3("a", { href: taskPlace(run, task), "aria-label": `${text} task: ${visible(String(task))}`, children: text });
  var Difference = ({ difference, diff, total }) => /* @__PURE__ */ a3("section", { children: [
    /* @__PURE__ */ a3("h2", { children: "Where they first differ" }),
    /* @__PURE__ */ a3("p", { class: "reading", children: [
      "In item ",
      difference.item + 1,
      " of the output:"
    ] }),
    /* @__PURE__ */ a3("table", { children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "Goes on with" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "wide", children: /* @__PURE__ */ a3("span", { class: "hidden", children: "Share as a bar" }) }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Rollouts" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Mean reward" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: difference.variants.map((variant) => /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "row", children: variant.name === NOTHING ? "no output there" : /* @__PURE__ */ a3(Theirs, { text: variant.name, limit: 60 }) }),
        /* @__PURE__ */ a3("td", { class: "wide", children: /* @__PURE__ */ a3(Meter, { share: variant.count / total, tone: "plain" }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: count(variant.count) }),
        /* @__PURE__ */ a3("td", { class: "n", children: decimal(variant.mean_reward) })
      ] }, variant.name)) })
    ] }),
    diff && /* @__PURE__ */ a3("p", { children: /* @__PURE__ */ a3("a", { href: diff, class: "button", children: "Best against worst" }) })
  ] });
  var Answers = ({ group, run }) => /* @__PURE__ */ a3("section", { children: [
    /* @__PURE__ */ a3("h2", { children: "Answers" }),
    group.expected && /* @__PURE__ */ a3("p", { class: "reading", children: [
      "Expected: ",
      /* @__PURE__ */ a3(Theirs, { text: group.expected, limit: 90 })
    ] }),
    /* @__PURE__ */ a3("table", { children: [
      /* @__PURE__ */ a3("thead", { children: /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "col", children: "Answer" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Rollouts" }),
        /* @__PURE__ */ a3("th", { scope: "col", class: "n", children: "Mean reward" })
      ] }) }),
      /* @__PURE__ */ a3("tbody", { children: group.answers.map((answer) => /* @__PURE__ */ a3("tr", { children: [
        /* @__PURE__ */ a3("th", { scope: "row", class: "text", children: answer.rollouts[0] === void 0 ? /* @__PURE__ */ a3(Theirs, { text: answer.answer, limit: 90 }) : /* @__PURE__ */ a3("a", { href: rolloutPlace(run, group.task, answer.rollouts[0]), children: /* @__PURE__ */ a3(Theirs, { text: answer.answer || "(empty)", limit: 90 }) }) }),
        /* @__PURE__ */ a3("td", { class: "n", children: count(answer.count) }),
        /* @__PURE__ */ a3("td", { class: "n", children: decimal(answer.mean_reward) })
      ] }, answer.answer)) })
    ] })
  ] });
  var Member = ({ member, group, run, picked, best, tone }) => {
    const other = group.members.find((candidate) => String(candidate.row) === picked);
    const components = Object.entries(member.components);
    const name = member.rollout === null ? `row ${member.row}` : `rollout ${member.rollout}`;
    return /* @__PURE__ */ a3("li", { class: `member ${member.reward === null ? "failed" : tone}`, "data-row": true, children: [
      /* @__PURE__ */ a3("h3", { children: [
        /* @__PURE__ */ a3("a", { href: rolloutPlace(run, group.task, member.rollout, { row: member.row, isMarked: member.marks.length > 0 }), children: name }),
        /* @__PURE__ */ a3("b", { children: member.reward === null ? visible(member.outcome) : decimal(member.reward) })
      ] }),
      /* @__PURE__ */ a3("p", { class: "quiet", children: [
        member.reward !== null && member.outcome !== "scored" && `${visible(member.outcome)}, `,
        member.tokens_out !== null && `${count(member.tokens_out)} tokens`,
        member.turns !== null && `, ${amount(member.turns, "turn")}`,
        member.marks.map((mark) => `, ${visible(mark)}`)
      ] }),
      components.length > 0 && /* @__PURE__ */ a3("dl", { class: "components", children: components.map(([component, value]) => /* @__PURE__ */ a3("div", { children: [
        /* @__PURE__ */ a3("dt", { children: /* @__PURE__ */ a3(Theirs, { text: component, limit: 40 }) }),
        /* @__PURE__ */ a3("dd", { children: number(value) })
      ] }, component)) }),
      member.answer ? /* @__PURE__ */ a3("pre", { class: "theirs answer", dir: "auto", tabIndex: 0, role: "region", "aria-label": `End of the answer of ${name}`, children: visible(member.answer) }) : /* @__PURE__ */ a3("p", { class: "quiet", children: "no answer" }),
      /* @__PURE__ */ a3("div", { class: "links", children: [
        picked === String(member.row) ? /* @__PURE__ */ a3("button", { type: "button", "aria-pressed": "true", onClick: () => setParameters({ pick: null }), children: "Picked" }) : other ? /* @__PURE__ */ a3("a", { class: "button", href: placeOfDiff(run, group.task, other, member), children: [
          "Difference to ",
          other.rollout === null ? `row ${other.row}` : other.rollout
        ] }) : /* @__PURE__ */ a3("button", { type: "button", "aria-label": `Pick for diff: ${name}`, onClick: () => setParameters({ pick: String(member.row) }), children: "Pick for diff" }),
        picked === null && best && best !== member && /* @__PURE__ */ a3("a", { class: "button", href: placeOfDiff(run, group.task, best, member), "aria-label": `Against the best: ${name}`, children: "Against the best" })
      ] })
    ] });
  };

  // src/app.tsx
  var KEYS = [
    ["?", "this list"],
    ["/", "the query, or find in a transcript"],
    ["j k", "next, previous row or item"],
    ["Enter", "open it"],
    ["Esc", "close, or one level up"],
    ["[ ]", "previous, next rollout or task"],
    ["g", "the group of a rollout"],
    ["d", "difference to another rollout"],
    ["t", "tokens"],
    ["r", "raw row"],
    ["c", "copy a link to what is shown"]
  ];
  var parts = (path) => path.split("/").filter(Boolean).map(decodeURIComponent);
  var Page = ({ place, session }) => {
    const [kind, id = "", part2 = "", task = "", rollout] = parts(place.path);
    if (kind === void 0) return /* @__PURE__ */ a3(RunsPage, { session, search: place.search });
    if (kind === "c") return /* @__PURE__ */ a3(ComparePage, { a: id, b: part2, search: place.search }, place.path);
    if (kind === "k") return /* @__PURE__ */ a3(ClusterPage, { id }, id);
    if (kind !== "r" || !id) return /* @__PURE__ */ a3(Missing, {});
    return /* @__PURE__ */ a3(RunLayout, { run: id, part: part2 || "overview", task, rollout, children: (view) => {
      if (part2 === "") return /* @__PURE__ */ a3(RunOverview, { view });
      if (part2 === "tasks" || part2 === "rollouts") {
        return /* @__PURE__ */ a3(TablePage, { view, of: part2, search: place.search, first: session?.query ?? "" }, part2);
      }
      if (part2 === "failures") return /* @__PURE__ */ a3(FailuresPage, { view });
      if (part2 === "select") return /* @__PURE__ */ a3(SelectPage, { view, search: place.search });
      if (part2 === "about") return /* @__PURE__ */ a3(AboutPage, { view });
      if (part2 !== "t") return /* @__PURE__ */ a3(Missing, {});
      if (rollout === void 0) return /* @__PURE__ */ a3(TaskPage, { view, task, search: place.search }, task);
      return /* @__PURE__ */ a3(RolloutPage, { view, task, rollout, search: place.search }, `${place.path} ${place.search.get("row")}`);
    } }, id);
  };
  var Missing = () => /* @__PURE__ */ a3("main", { children: [
    /* @__PURE__ */ a3("h1", { children: "There is no such page" }),
    /* @__PURE__ */ a3("p", { class: "lead", children: /* @__PURE__ */ a3("a", { href: "/", children: "All runs" }) })
  ] });
  var THEMES = ["system", "light", "dark"];
  var ThemeButton = () => {
    const [theme, setTheme] = d2(localStorage.getItem("palestra-theme") ?? "system");
    const change = () => {
      const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
      setTheme(next);
      localStorage.setItem("palestra-theme", next);
      if (next === "system") delete document.documentElement.dataset["theme"];
      else document.documentElement.dataset["theme"] = next;
      dispatchEvent(new Event("palestra-theme"));
    };
    return /* @__PURE__ */ a3("button", { type: "button", id: "theme", onClick: change, children: [
      "Theme: ",
      theme
    ] });
  };
  var KeysDialog = ({ opened, close }) => {
    const dialog = T2(null);
    A2(() => {
      if (opened) dialog.current?.showModal();
      else dialog.current?.close();
    }, [opened]);
    return /* @__PURE__ */ a3("dialog", { ref: dialog, class: "keys", "aria-labelledby": "keys-title", onClose: close, children: [
      /* @__PURE__ */ a3("h2", { id: "keys-title", children: "Keys" }),
      /* @__PURE__ */ a3("dl", { children: KEYS.map(([key, text]) => /* @__PURE__ */ a3("div", { children: [
        /* @__PURE__ */ a3("dt", { children: key.split(" ").map((one) => /* @__PURE__ */ a3("kbd", { children: one }, one)) }),
        /* @__PURE__ */ a3("dd", { children: text })
      ] }, key)) }),
      /* @__PURE__ */ a3("button", { type: "button", onClick: close, children: "Close" })
    ] });
  };
  var App = () => {
    const place = usePlace();
    const [keysShown, showKeys] = d2(false);
    const session = useReply(request("session"));
    useKeys({
      "?": () => showKeys(true),
      c: () => copyAndSay(location.href, "Link")
    });
    return /* @__PURE__ */ a3($, { children: [
      /* @__PURE__ */ a3("a", { class: "skip", href: "#main", children: "Skip to the content" }),
      /* @__PURE__ */ a3("header", { class: "top", children: [
        /* @__PURE__ */ a3("a", { href: "/", class: "brand", children: "Palestra" }),
        /* @__PURE__ */ a3("div", { class: "tools", children: [
          /* @__PURE__ */ a3("button", { type: "button", onClick: () => showKeys(true), "aria-label": "Keys", "data-tip": "Keys (?)", children: "?" }),
          /* @__PURE__ */ a3(ThemeButton, {})
        ] })
      ] }),
      /* @__PURE__ */ a3(Boundary, { name: "page", children: /* @__PURE__ */ a3(Page, { place, session: session.data }) }, place.path),
      /* @__PURE__ */ a3(KeysDialog, { opened: keysShown, close: () => showKeys(false) }),
      /* @__PURE__ */ a3(StatusLine, {}),
      /* @__PURE__ */ a3(Tip, {})
    ] });
  };

  // src/main.tsx
  takeToken();
  followLinks();
  var page = document.getElementById("page");
  if (page) Q(/* @__PURE__ */ a3(App, {}), page);
})();
