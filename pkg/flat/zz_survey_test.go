package flat
import ("testing";"reflect";"fmt";"k8s.io/client-go/kubernetes/scheme"
apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
apiextb "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)
func TestSurvey(t *testing.T){
 seen:=map[reflect.Type]bool{}
 var walk func(p string,t reflect.Type)
 out:=map[string]string{}
 walk=func(p string,t reflect.Type){
  if seen[t]{return}; seen[t]=true
  switch t.Kind(){
  case reflect.Struct:
   for i:=0;i<t.NumField();i++{f:=t.Field(i); if f.PkgPath!=""{ out["unexp "+t.String()+"."+f.Name+" "+f.Type.String()]=p; continue}; walk(p+"."+f.Name,f.Type)}
  case reflect.Pointer,reflect.Slice: walk(p,t.Elem())
  case reflect.Map: out["map "+t.String()+" = map["+t.Key().Kind().String()+"]"+t.Elem().Kind().String()]=p; walk(p,t.Elem())
  case reflect.String,reflect.Bool,reflect.Int,reflect.Int32,reflect.Int64,reflect.Uint8:
  default: out["kind "+t.Kind().String()+" "+t.String()]=p
  }
 }
 n:=0
 for gvk,ty:=range scheme.Scheme.AllKnownTypes(){ n++; walk(gvk.String(),ty)}
 walk("crd",reflect.TypeOf(apiext.CustomResourceDefinition{}))
 walk("crdb",reflect.TypeOf(apiextb.CustomResourceDefinition{}))
 for k,v:=range out{fmt.Println(k,"@",v)}
 fmt.Println(n)
}
